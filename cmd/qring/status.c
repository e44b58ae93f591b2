#include <stdio.h>

#include "cmd/qring/command.h"
#include "monitor/status.h"

const char qr_help_status[] =
    "Asks a running worker's port for probes and metrics how it goes: who is in the ring, steps a "
    "second, the slowest member, checkpoints, refused\n"
    "connections, its last error. Asks twice, a second apart; changes nothing.\n"
    "\n"
    "Examples:\n"
    "  qring status localhost:8080\n"
    "  kubectl port-forward pod/qcnn-0 8080 & qring status localhost   # port 8080 is the default\n"
    "  qring status qcnn-3.qcnn:8080 --json | jq .steps_per_second\n"
    "\n"
    "Usage: qring status HOST[:PORT] [--json]\n"
    "  PORT is the worker's --http-port; workers of qring run have one only if it is given to "
    "them.\n"
    "  --json                 one object on standard output: members under \"peers\", counters "
    "under \"metrics\" by their names in /metrics\n"
    "\n"
    "Exit codes: 0 it answered, 2 the address is none or something else answers there, 138 nobody "
    "answers (now).\n";

int qr_command_status(const struct qr_command *self, int argc, char **argv) {
    bool json = false, help;
    struct qr_words words;
    struct qr_err err = {0};
    struct qr_status_pair s;
    struct qr_buf text = {0};
    const struct qr_flag flags[] = {{"--json", NULL, &json}};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, NULL, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    if (code == QR_OK && words.n == 0)
        code = qr_fail(&err, QR_INVALID_ARGUMENT,
                       "which worker? qring status HOST:PORT; --help shows examples");
    if (code == QR_OK) code = qr_status_ask(words.v[0], &s, &err);
    if (code != QR_OK) return qr_conclude(code, &err);
    if (json) qr_status_json(&s, words.v[0], &text);
    else qr_status_text(&s, words.v[0], &text);
    fwrite(text.p, 1, text.n, stdout);
    qr_buf_free(&text);
    return 0;
}
