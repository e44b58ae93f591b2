/* cmd/qring/main.c — the table of commands and qring help. Start reading at main(). */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "job/canonical.h"
#include "store/store.h"
#include "worker/watchdog.h"
#include "worker/stop.h"
#include "worker/worker.h"

static int run_completion(const struct qr_command *self, int argc, char **argv);

static const struct qr_command commands[] = {
    {"run", "run [JOB] [-n N] [--out DIR]", "train a job on this machine with N worker processes",
     qr_help_run, qr_command_run},
    {"sweep", "sweep [JOB] [-n N] [--out DIR]", "train the trials of a job's sweep, N at a time",
     qr_help_sweep, qr_command_sweep},
    {"infer", "infer [JOB] [--weights URL]",
     "predictions, labels and loss on the validation samples", qr_help_infer, qr_command_infer},
    {"predict", "predict [JOB] [--weights URL] --data FILE",
     "classes, probabilities or values of new samples, as CSV or JSON lines", qr_help_predict,
     qr_command_predict},
    {"evaluate", "evaluate [JOB] [--weights URL]",
     "loss, metrics and confusion matrix, on the validation samples or a file", qr_help_evaluate,
     qr_command_evaluate},
    {"gradient", "gradient [JOB] [--of loss|prediction]",
     "exact derivatives as JSON, to check against other programs", qr_help_gradient,
     qr_command_gradient},
    {"sample", "sample [JOB] [--shots N]", "bit strings drawn from the circuit's final states",
     qr_help_sample, qr_command_sample},
    {"validate", "validate [JOB] [--price-per-cpu-hour P]",
     "check ring, names, buckets, memory, time and cost before a run", qr_help_validate,
     qr_command_validate},
    {"verify", "verify RUN [--step N]",
     "check a run's chain of digests and files; compute steps again", qr_help_verify,
     qr_command_verify},
    {"status", "status HOST:PORT",
     "state of a running worker: members, step rate, slowest member, last error", qr_help_status,
     qr_command_status},
    {"show", "show [JOB]", "draw the circuit; list parameters, fused gates and cost", qr_help_show,
     qr_command_show},
    {"export", "export [JOB] [--weights URL] --to FORMAT", "write the circuit for another program",
     qr_help_export, qr_command_export},
    {"import", "import FILE [--inputs a,b]",
     "print a circuit of OpenQASM, Cirq or TensorFlow Quantum", qr_help_import, qr_command_import},
    {"weights", "weights FILE...", "list, compare or convert weights", qr_help_weights,
     qr_command_weights},
    {"certs", "certs JOB --out DIR|--secret",
     "create a job's CA and certificate, for TLS between its workers", qr_help_certs,
     qr_command_certs},
    {"completion", "completion bash|zsh|fish", "print the shell completion of bash, zsh or fish",
     qr_help_completion, run_completion},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int run_completion(const struct qr_command *self, int argc, char **argv) {
    return qr_completion(commands, N_COMMANDS, self, argc, argv);
}

static void print_help(FILE *out) {
    fputs("qring - train quantum-classical models; the result is the same to the last bit with any "
          "number of workers\n"
          "\n"
          "Examples:\n"
          "  qring run                                # the tutorial, one worker, into out/qcnn\n"
          "  qring run deploy/jobs/qcnn.json -n 2     # two workers on loopback\n"
          "  qring show                               # its circuit\n"
          "  qring infer out/qcnn                     # its predictions and loss\n"
          "\n"
          "Usage: qring COMMAND [ARGUMENTS]\n"
          "\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-42s %s\n", commands[i].usage, commands[i].summary);
    fputs("  help [COMMAND]                             this text, or the help of a command\n"
          "  help job [WORD]                            reference of the job file, or its entry "
          "for a key, an object or a name\n"
          "\n"
          "JOB is a path or URL of a job file, - for standard input, or the folder of a run; the "
          "default\n"
          "is the built-in tutorial. qring COMMAND --help shows examples and flags.\n",
          out);
}

static const struct qr_command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static int unknown_command(const char *name) {
    const char *names[N_COMMANDS + 1];
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    names[N_COMMANDS] = "help";
    const char *near = qr_nearest(name, names, N_COMMANDS + 1);
    if (near)
        qr_error(qr_command_log(), "qring", "unknown command '%.80s'; did you mean '%s'?", name,
                 near);
    else
        qr_error(qr_command_log(), "qring", "unknown command '%.80s'; qring help lists them", name);
    return 2;
}

static int print_help_of(int n_words, char **words) {
    if (n_words && strcmp(words[0], "job") == 0) return qr_help_job(n_words - 1, words + 1);
    const struct qr_command *about = n_words ? find_command(words[0]) : NULL;
    if (n_words && !about) return unknown_command(words[0]);
    if (about) fputs(about->help, stdout);
    else print_help(stdout);
    return 0;
}

static int run_named(const char *name, int argc, char **argv) {
    const struct qr_command *command = find_command(name);
    if (command) return command->run(command, argc, argv);
    if (strcmp(name, "help") == 0) return print_help_of(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return print_help_of(0, NULL);
    if (strcmp(name, "--version") != 0 && strcmp(name, "version") != 0)
        return unknown_command(name);
    printf("qring %s (arithmetic %s, %s)\n", QR_VERSION, qr_contract_name(QR_SINGLE),
           qr_contract_name(QR_DOUBLE));
    return 0;
}

enum { EXIT_BROKEN_PIPE = 128 + SIGPIPE };

/* The reader of the pipe has closed it. That ends this process by SIGPIPE, or here if the parent
 * ignores that signal (as systemd does). */
static bool stdout_is_closed(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    struct qr_err err;
    qr_standard_streams_occupy();
    if (qr_watchdog_install(&err) != QR_OK) return qr_exit_report(err.code, &err);
    if (!name) {
        print_help(stderr);
        return 2;
    }
    qr_store_configure(environ, qr_stop_requested, qr_command_log());
    int code = run_named(name, argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (stdout_is_closed()) return code ? code : EXIT_BROKEN_PIPE;
        qr_error(qr_command_log(), "qring", "cannot write standard output");
        return code ? code : 2;
    }
    return code;
}
