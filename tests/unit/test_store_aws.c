/* Shared parts of the AWS clients: published signatures, times, XML. */
#include <string.h>

#include "base/mem.h"
#include "store/aws/aws.h"
#include "tests/t.h"

/* ---- AWS' own examples ---- */

/* docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */
static void test_signatures(void) {
    static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                      text[] = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    static const struct {
        const char *method, *path, *query, *payload, *more[3], *want;
    } rows[] = {
        {"GET",
         "/test.txt",
         "",
         empty,
         {"Range: bytes=0-9"},
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {"PUT",
         "/test%24file.text",
         "",
         text,
         {"Date: Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class: REDUCED_REDUNDANCY"},
         "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
        {"GET",
         "/",
         "lifecycle=",
         empty,
         {NULL},
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"GET",
         "/",
         "max-keys=2&prefix=J",
         empty,
         {NULL},
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };
    struct qr_s3_keys keys = {.id = (char *)(uintptr_t) "AKIAIOSFODNN7EXAMPLE",
                              .secret =
                                  (char *)(uintptr_t) "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char hash[100];
        const char *headers[8] = {"Host: examplebucket.s3.amazonaws.com",
                                  "x-amz-date: 20130524T000000Z", hash};
        size_t n = 3;
        snprintf(hash, sizeof hash, "X-Amz-Content-SHA256:  %s ", rows[i].payload);
        for (size_t k = 0; k < 3 && rows[i].more[k]; k++) headers[n++] = rows[i].more[k];
        const struct qr_s3_signing s = {
            rows[i].method,  rows[i].path,       rows[i].query, headers, n,
            rows[i].payload, "20130524T000000Z", "us-east-1",   "s3"};
        qr_auto(qr_free_p) char *got = qr_s3_authorization(&s, &keys);
        CHECK(strstr(got, rows[i].want), "%s %s: %s", rows[i].method, rows[i].path, got);
        CHECK(strstr(got, "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "),
              "%s", got);
    }
    static const struct {
        const char *text;
        int64_t s;
    } times[] = {{"2011-07-15T23:28:33.359Z", 1310772513},
                 {"1970-01-01T00:00:00Z", 0},
                 {"2024-02-29T12:00:00Z", 1709208000},
                 {"2013-05-24T00:00:00+00:00", 1369353600},
                 {"2013-13-24T00:00:00Z", -1},
                 {"2013-05-24", -1},
                 {"2013-05-24T00:00:00X", -1}};
    for (size_t i = 0; i < COUNT(times); i++) {
        int64_t ns = -QR_SECOND;
        char back[QR_S3_TIME_BYTES];
        CHECK(qr_s3_time_parse(times[i].text, &ns) == (times[i].s >= 0) &&
                  ns == times[i].s * QR_SECOND,
              "%s: %lld", times[i].text, (long long)(ns / QR_SECOND));
        qr_s3_time(1709208000 * QR_SECOND, back);
        CHECK(strcmp(back, "20240229T120000Z") == 0, "%s", back);
    }
}

/* ---- XML ---- */

static void leaf(void *ctx, const char *parent, const char *name, const char *text) {
    qr_buf_printf(ctx, "%s.%s=%s;", parent, name, text);
}
static void test_xml(void) {
    static const struct {
        const char *text, *want; /* NULL: rejected */
    } rows[] = {
        {"<?xml version=\"1.0\"?>\n<!-- a > b --><A x='>'><B>1</B><C/><D><E> &lt;&#x41;&#252;&amp; "
         "</E></D></A>\n",
         "A.B=1;A.C=;D.E= <A\xc3\xbc& ;"},
        {"<A></A>", ".A=;"},
        {"\xef\xbb\xbf<A><B><![CDATA[<&>]]]]></B></A>", "A.B=<&>]];"},
        {"<A><B>\xff</B></A>", NULL},
        {"<A><B>\xed\xa0\x80</B></A>", NULL},
        {"<A x='1' x='2'></A>", NULL},
        {"<A x=1></A>", NULL},
        {"<A><![CDATA[</A>", NULL},
        {"<!DOCTYPE A [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY "
         "c "
         "\"&b;&b;&b;&b;&b;&b;&b;&b;\">]><A>&c;</A>",
         NULL},
        {"<!DOCTYPE A SYSTEM \"file:///etc/passwd\"><A></A>", NULL},
        {"<A><B>1</B>", NULL},
        {"<A><B>1</A></B>", NULL},
        {"<A>&no;</A>", NULL},
        {"<A>&#xd800;</A>", NULL},
        {"<A>&#0;</A>", NULL},
        {"<B>1</B>", NULL},
        {"<A/><A/>", NULL},
        {"<A></A>x", NULL},
        {"<!DOCTYPE A [<!ENTITY a \"b\">]><A>&a;</A>", NULL},
        {"<A", NULL},
        {"", NULL},
        {"{}", NULL},
        {"<A><A><A><A><A><A><A><A><A><A><A><A><A><A><A><A><A></A></A></A></A></A></A></A></A></A>"
         "</A></A></A></A></A></A></A></A>",
         NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_buf b = {0};
        struct qr_err err = {0};
        enum qr_code code = qr_s3_xml(qr_bytes_of_string(rows[i].text), "A", leaf, &b, &err);
        CHECK(code == (rows[i].want ? QR_OK : QR_INVALID_ARGUMENT) &&
                  (!rows[i].want || strcmp(qr_buf_string(&b), rows[i].want) == 0),
              "%s: %s %s", rows[i].text, qr_buf_string(&b), err.msg);
        qr_buf_free(&b);
    }
}

int main(void) {
    test_signatures();
    test_xml();
    return t_end();
}
