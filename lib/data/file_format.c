/* data/file_format.c — recognizes unsupported data formats by their first bytes. Start reading at
 * qr_dataset_check_format(). */
#include <string.h>

#include "data/dataset_impl.h"

enum { UTF16_BYTES = 64 };

/* Detects UTF-16 by its byte order mark, or, for Latin letters, because every other byte is 0. */
static bool is_utf16(struct qr_bytes file) {
    size_t n = file.n < UTF16_BYTES ? file.n : UTF16_BYTES, zeros[2] = {0};
    if (n >= 2 && (memcmp(file.p, "\xff\xfe", 2) == 0 || memcmp(file.p, "\xfe\xff", 2) == 0))
        return true;
    for (size_t i = 0; i < n; i++) zeros[i % 2] += file.p[i] == 0;
    return n >= 4 && zeros[0] + zeros[1] > 0 &&
           ((zeros[0] == 0 && zeros[1] == n / 2) || (zeros[1] == 0 && zeros[0] == (n + 1) / 2));
}

enum qr_code qr_dataset_check_format(struct qr_bytes file, bool npz, const char *url,
                                     struct qr_err *err) {
    static const struct {
        const char *bytes;
        size_t n;
        bool in_npz; /* also rejected when npz is expected */
        const char *name, *what_to_do;
    } formats[] = {
#define BYTES(s) s, sizeof s - 1
        {BYTES("PAR1"), true, "Parquet",
         "write CSV or npz (pandas: read_parquet(FILE).to_csv(\"data.csv\", index=False))"},
        {BYTES("ARROW1"), true, "Arrow (Feather)",
         "write CSV or npz (pandas: read_feather(FILE).to_csv(\"data.csv\", index=False))"},
        {BYTES("\x89HDF\r\n\x1a\n"), true, "HDF5",
         "write CSV or npz (numpy.savez(\"data.npz\", x=x, y=y))"},
        {BYTES("\x93NUMPY"), true, "a single NumPy array",
         "write both arrays as npz (numpy.savez(\"data.npz\", x=x, y=y))"},
        {BYTES("\x1f\x8b"), true, "gzip", "unpack it first (gunzip)"},
        {BYTES("\x28\xb5\x2f\xfd"), true, "zstd", "unpack it first (unzstd)"},
        {BYTES("PK\3\4"), false, "a ZIP archive",
         "for a NumPy file set data \"source\": \"npz\"; save an Excel sheet as CSV"},
#undef BYTES
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (file.n >= formats[i].n && memcmp(file.p, formats[i].bytes, formats[i].n) == 0 &&
            (formats[i].in_npz || !npz))
            return qr_fail(err, QR_DATA_LOSS, "%s: cannot read %s; %s", url, formats[i].name,
                           formats[i].what_to_do);
    if (is_utf16(file))
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: cannot read text in UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)", url);
    return QR_OK;
}
