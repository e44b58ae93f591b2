#include <stdio.h>
#include <string.h>

#include "cmd/qring/command.h"
#include "worker/settings.h"

const char qr_help_completion[] =
    "Prints a shell's completion for qring.\n"
    "\n"
    "Examples:\n"
    "  source <(qring completion bash)                  # in ~/.bashrc\n"
    "  qring completion zsh > \"${fpath[1]}/_qring\"      # then start a new shell\n"
    "  qring completion fish > ~/.config/fish/completions/qring.fish\n"
    "\n"
    "Usage: qring completion bash|zsh|fish\n";

/* These take every flag of the worker too. */
static bool takes_settings(const struct qr_command *c) { return strcmp(c->name, "run") == 0 || strcmp(c->name, "validate") == 0; }

static void put_flags(const struct qr_command *c) {
    fputs(c->flags, stdout);
    if (!takes_settings(c)) return;
    for (size_t i = 0; qr_settings_name(i); i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "--%s", qr_settings_name(i));
        if (!strstr(c->flags, flag)) printf(" %s", flag);
    }
}

static void put_names(void) {
    for (size_t i = 0; i < qr_n_commands; i++) printf("%s ", qr_commands[i].name);
    printf("help");
}

static void bash(const char *wrap) {
    printf("_qring() {\n    local cur=${COMP_WORDS[COMP_CWORD]} words=\n    case ${COMP_CWORD}:${COMP_WORDS[1]} in\n    1:*) words='");
    put_names();
    printf("' ;;\n");
    for (size_t i = 0; i < qr_n_commands; i++) {
        printf("    *:%s) words='", qr_commands[i].name);
        put_flags(&qr_commands[i]);
        printf("' ;;\n");
    }
    printf("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$cur\"))\n}\n%s", wrap);
}

static void fish(void) {
    for (size_t i = 0; i < qr_n_commands; i++) {
        const struct qr_command *c = &qr_commands[i];
        printf("complete -c qring -n __fish_use_subcommand -a %s -d '%s'\n", c->name, c->summary);
        for (const char *f = c->flags; *f; f += strspn(f, " ")) {
            int n = (int)strcspn(f, " ");
            if (strncmp(f, "--", 2) == 0) printf("complete -c qring -n '__fish_seen_subcommand_from %s' -l %.*s\n", c->name, n - 2, f + 2);
            else if (*f == '-') printf("complete -c qring -n '__fish_seen_subcommand_from %s' -s %.*s\n", c->name, n - 1, f + 1);
            else printf("complete -c qring -n '__fish_seen_subcommand_from %s' -a %.*s\n", c->name, n, f);
            f += n;
        }
        if (!takes_settings(c)) continue;
        for (size_t k = 0; qr_settings_name(k); k++) printf("complete -c qring -n '__fish_seen_subcommand_from %s' -l %s\n", c->name, qr_settings_name(k));
    }
}

int qr_command_completion(const struct qr_command *self, int argc, char **argv) {
    struct qr_words words;
    struct qr_err err = {0};
    bool help;
    enum qr_code code = qr_read_flags(argc, argv, NULL, 0, 1, &words, &help, &err);
    if (code == QR_OK && help) {
        fputs(self->help, stdout);
        return 0;
    }
    const char *shell = words.n ? words.v[0] : "";
    if (code != QR_OK) return qr_conclude(code, &err);
    if (strcmp(shell, "bash") == 0) bash("complete -F _qring qring\n");
    else if (strcmp(shell, "zsh") == 0) {
        printf("#compdef qring\nautoload -U +X bashcompinit && bashcompinit\n");
        bash("complete -F _qring qring\n");
    } else if (strcmp(shell, "fish") == 0) fish();
    else code = qr_fail(&err, QR_INVALID_ARGUMENT, "which shell: bash, zsh or fish?");
    return qr_conclude(code, &err);
}
