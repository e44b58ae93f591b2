/* cmd/qring/completion.c — qring completion: generates shell completions from the help texts. Start
 * reading at set_collect(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/qring/command.h"
#include "worker/settings.h"

const char qr_help_completion[] =
    "Prints the completion of qring and qringd for a shell: commands, flags, values and files.\n"
    "make install installs it.\n"
    "\n"
    "Examples:\n"
    "  source <(qring completion bash)                  # in ~/.bashrc\n"
    "  qring completion zsh > \"${fpath[1]}/_qring\"      # then start a new shell\n"
    "  qring completion fish > ~/.config/fish/completions/qring.fish\n"
    "\n"
    "Usage: qring completion bash|zsh|fish\n";

static const struct qr_command *commands; /* all of them */
static size_t n_commands;

/* Kind of an argument: unknown to a shell, one of several words, or a path. */
enum kind { ANYTHING, WORDS, FILES, JOBS, FOLDERS };
static const char *const kind_name[] = {"anything", "words", "files", "jobs", "folders"};
struct value {
    enum kind kind;
    const char *words; /* "auto|portable" */
};

/* Flags and argument of a command, or of qringd. */
struct set {
    const char *name;
    char takes[40]; /* "JOB" */
    struct qr_help_flag flags[QR_SETTINGS_MAX + 32];
    size_t n;
};

static struct value value_kind(const char *value) {
    if (strchr(value, '|')) return (struct value){WORDS, value};
    if (strcmp(value, "JOB") == 0) return (struct value){.kind = JOBS};
    if (strcmp(value, "DIR") == 0) return (struct value){.kind = FOLDERS};
    static const char *const files[] = {"FILE", "FILE...", "URL", "OUT"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(value, files[i]) == 0) return (struct value){.kind = FILES};
    return (struct value){.kind = ANYTHING};
}

static struct value flag_value_kind(const struct qr_help_flag *f) {
    static struct qr_buf paths;
    if (strcmp(f->name, "--set") == 0) {
        if (!paths.n) qr_job_key_paths(&paths);
        return (struct value){WORDS, qr_buf_string(&paths)};
    }
    const char *choices = qr_settings_choices(f->name + strspn(f->name, "-"));
    return choices ? (struct value){WORDS, choices} : value_kind(f->value);
}

static bool set_has_flag(const struct set *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->flags[i].name, name) == 0) return true;
    return false;
}

/* Adds the flags of a help text that are not in the set yet. */
static void set_add_flags(struct set *s, const char *help, bool but_refused) {
    struct qr_help_flag f;
    while (qr_help_flag(&help, &f)) {
        if (set_has_flag(s, f.name) || (but_refused && qr_run_rejects(f.name + 2))) continue;
        QR_ASSERT(s->n < sizeof s->flags / sizeof *s->flags);
        s->flags[s->n++] = f;
    }
}

static void set_collect(struct set *s, const struct qr_command *c) {
    const char *takes = c ? c->usage + strlen(c->name) + 1 : "JOB";
    takes += *takes == '[';
    *s = (struct set){.name = c ? c->name : "qringd"};
    snprintf(s->takes, sizeof s->takes, "%.*s", (int)strcspn(takes, " ]"), takes);
    if (c) set_add_flags(s, c->help, false);
    /* stated in the help of run, sweep and validate */
    if (!c || strstr(c->help, "every flag of qringd")) {
        struct qr_buf settings = {0};
        qr_settings_help(&settings);
        set_add_flags(s, qr_buf_string(&settings), c && strcmp(c->name, "run") == 0);
        qr_buf_free(&settings);
    }
    set_add_flags(s, "  --help  this help\n", false);
}

/* Calls put for each command, then for qringd. */
static void put_each_set(void (*put)(const struct set *)) {
    static struct set s;
    for (size_t i = 0; i <= n_commands; i++) {
        set_collect(&s, i < n_commands ? &commands[i] : NULL);
        put(&s);
    }
}

/* Inside single quotes of bash and zsh. escaped: characters that need a backslash there. */
static void put_quoted(const char *text, const char *escaped) {
    for (const char *c = text; *c; c++) {
        if (*c == '\'') fputs("'\\''", stdout);
        else if (strchr(escaped, *c)) printf("\\%c", *c);
        else putchar(*c);
    }
}

static void put_words(const char *words) {
    for (const char *c = words; *c; c++) putchar(*c == '|' ? ' ' : *c);
}

static void put_commands(void) {
    for (size_t i = 0; i < n_commands; i++) printf("%s ", commands[i].name);
    fputs("help", stdout);
}

/* Words of qring help job. */
static void put_reference(void) {
    struct qr_buf words = {0};
    qr_help_job_words(&words);
    put_quoted(qr_buf_string(&words), "$");
    qr_buf_free(&words);
}

/* ---- bash ---- */

static const char bash_head[] =
    "# bash completion of qring and qringd: qring completion bash\n"
    "_qring() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local command=${COMP_WORDS[1]} flags= kind=words words=\n"
    "    COMPREPLY=()\n"
    "    case $cur:$flag in # --flag=value is three words\n"
    "    =:*) cur= ;;\n"
    "    *:=) flag=${COMP_WORDS[COMP_CWORD-2]} ;;\n"
    "    esac\n"
    "    if [ \"${1##*/}\" = qringd ]; then command=qringd\n"
    "    elif [ \"$COMP_CWORD\" = 1 ]; then command=; fi\n"
    "    case $command in\n";
static const char bash_tail[] =
    "    esac\n"
    "    case $cur in -*) [ -z \"$flags\" ] || kind=words words=$flags ;; esac\n"
    "    local IFS=$' \\n'\n"
    "    case $kind in\n"
    "    words) COMPREPLY=($(compgen -W \"${words:-$flags}\" -- \"$cur\")) ;;\n"
    "    files) compopt -o default ;;\n"
    "    folders) compopt -o dirnames ;;\n"
    "    jobs)\n"
    "        IFS=$'\\n'\n"
    "        COMPREPLY=($(compgen -f -X '!*.json' -- \"$cur\") $(compgen -d -- \"$cur\"))\n"
    "        compopt -o filenames -o default ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _qring qring qringd\n";

static void put_bash_value(struct value v) {
    printf("kind=%s", kind_name[v.kind]);
    if (v.kind != WORDS) return;
    fputs(" words='", stdout);
    put_words(v.words);
    putchar('\'');
}

static void put_bash(const struct set *s) {
    struct value takes = value_kind(s->takes);
    printf("    %s)\n        ", s->name);
    put_bash_value(takes.kind == ANYTHING ? (struct value){WORDS, ""} : takes);
    printf("\n        flags='");
    for (size_t i = 0; i < s->n; i++) printf("%s%s", i ? " " : "", s->flags[i].name);
    printf("'\n        case $flag in\n");
    for (size_t i = 0; i < s->n; i++) {
        if (!s->flags[i].value[0]) continue;
        printf("        %s) ", s->flags[i].name);
        put_bash_value(flag_value_kind(&s->flags[i]));
        fputs(" flags= ;;\n", stdout);
    }
    fputs("        esac ;;\n", stdout);
}

static void print_bash(void) {
    fputs(bash_head, stdout);
    fputs("    '') flags='--help --version' words='", stdout);
    put_commands();
    fputs("' ;;\n    help) words='", stdout);
    put_commands();
    fputs(" job'\n        [ \"$COMP_CWORD $flag\" != '3 job' ] || words='", stdout);
    put_reference();
    fputs("' ;;\n", stdout);
    put_each_set(put_bash);
    fputs(bash_tail, stdout);
}

/* ---- zsh ---- */

static void put_zsh_value(struct value v, const char *name) {
    static const char *const action[] = {" ", "", "_files", "_files -g \"*.json\"", "_files -/"};
    putchar(':');
    put_quoted(name, ":\\");
    putchar(':');
    if (v.kind != WORDS) {
        fputs(action[v.kind], stdout);
        return;
    }
    putchar('(');
    put_words(v.words);
    putchar(')');
}

static void put_zsh(const struct set *s) {
    struct value takes = value_kind(s->takes);
    printf("    %s)\n        _arguments", s->name);
    for (size_t i = 0; i < s->n; i++) {
        const struct qr_help_flag *f = &s->flags[i];
        const char *joined = !f->value[0] ? "" : f->name[1] == '-' ? "=" : "+";
        bool often = strcmp(f->name, "--set") == 0;
        printf(" \\\n            '%s%s%s[", often ? "*" : "", f->name, joined);
        put_quoted(f->about[0] ? f->about : f->value, "]\\");
        putchar(']');
        if (f->value[0]) put_zsh_value(flag_value_kind(f), f->value);
        putchar('\'');
    }
    if (takes.kind != ANYTHING) {
        printf(" \\\n            '%s", strstr(s->takes, "...") ? "*" : "1");
        put_zsh_value(takes, s->takes);
        putchar('\'');
    }
    fputs(" ;;\n", stdout);
}

static void put_zsh_commands(void) {
    for (size_t i = 0; i < n_commands; i++) {
        printf("        '%s:", commands[i].name);
        put_quoted(commands[i].summary, ":\\");
        fputs("'\n", stdout);
    }
    fputs("        'help:help of qring or of a command'\n", stdout);
}

static void print_zsh(void) {
    fputs("#compdef qring qringd\n"
          "# zsh completion of qring and qringd: qring completion zsh\n"
          "_qring() {\n"
          "    local -a commands=(\n",
          stdout);
    put_zsh_commands();
    fputs("    )\n"
          "    local command=qringd\n"
          "    if [[ ${words[1]:t} != qringd ]]; then\n"
          "        if (( CURRENT == 2 )); then\n"
          "            _describe command commands\n"
          "            [[ $words[2] != -* ]] || compadd -- --help --version\n"
          "            return\n"
          "        fi\n"
          "        command=$words[2]\n"
          "        shift words\n"
          "        (( CURRENT-- ))\n"
          "    fi\n"
          "    case $command in\n"
          "    help)\n"
          "        if (( CURRENT == 3 )) && [[ $words[2] == job ]]; then compadd -- ",
          stdout);
    put_reference();
    fputs("\n        else compadd job; _describe command commands; fi ;;\n", stdout);
    put_each_set(put_zsh);
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _qring ]]; then _qring \"$@\"\n"
          "else compdef _qring qring qringd; fi\n",
          stdout);
}

/* ---- fish ---- */

/* Inside single quotes of fish, quotes and backslashes are escaped by a backslash. */
static void put_fish_quoted(const char *text) {
    for (const char *c = text; *c; c++) printf(*c == '\'' || *c == '\\' ? "\\%c" : "%c", *c);
}

static void put_fish_value(struct value v) {
    static const char *const action[] = {
        " -x",
        "",
        " -r -F",
        " -x -a '(__fish_complete_suffix .json)'",
        " -x -a '(__fish_complete_directories)'",
    };
    if (v.kind != WORDS) {
        fputs(action[v.kind], stdout);
        return;
    }
    fputs(" -x -a '", stdout);
    put_words(v.words);
    putchar('\'');
}

static void put_fish(const struct set *s) {
    char when[80] = "complete -c qringd";
    struct value takes = value_kind(s->takes);
    if (strcmp(s->name, "qringd") != 0)
        snprintf(when, sizeof when, "complete -c qring -n '__fish_seen_subcommand_from %s'",
                 s->name);
    for (size_t i = 0; i < s->n; i++) {
        const struct qr_help_flag *f = &s->flags[i];
        bool long_one = f->name[1] == '-';
        printf("%s -%c %s", when, long_one ? 'l' : 's', f->name + 1 + long_one);
        if (f->value[0]) put_fish_value(flag_value_kind(f));
        fputs(" -d '", stdout);
        put_fish_quoted(f->about[0] ? f->about : f->value);
        fputs("'\n", stdout);
    }
    if (takes.kind == ANYTHING) return;
    printf("%s", when);
    put_fish_value(takes);
    putchar('\n');
}

static void print_fish(void) {
    fputs("# fish completion of qring and qringd: qring completion fish\n"
          "complete -c qring -f\n"
          "complete -c qringd -f\n"
          "complete -c qring -n __fish_use_subcommand -l help -d 'the commands'\n"
          "complete -c qring -n __fish_use_subcommand -l version -d 'the version'\n"
          "complete -c qring -n __fish_use_subcommand -a help -d 'the commands, or one of them'\n"
          "complete -c qring -n '__fish_seen_subcommand_from help' -a '",
          stdout);
    put_commands();
    fputs(" job'\n"
          "complete -c qring -n '__fish_seen_subcommand_from help; and __fish_seen_subcommand_from "
          "job' -a '",
          stdout);
    put_reference();
    fputs("'\n", stdout);
    for (size_t i = 0; i < n_commands; i++) {
        printf("complete -c qring -n __fish_use_subcommand -a %s -d '", commands[i].name);
        put_fish_quoted(commands[i].summary);
        fputs("'\n", stdout);
    }
    put_each_set(put_fish);
}

int qr_completion(const struct qr_command *all, size_t n, const struct qr_command *self, int argc,
                  char **argv) {
    commands = all;
    n_commands = n;
    struct qr_words words;
    struct qr_err err = {0};
    bool help;
    enum qr_code code = qr_read_flags(argc, argv, NULL, 0, NULL, 1, &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    const char *shell = words.n ? words.v[0] : "";
    if (code != QR_OK) return qr_exit_report(code, &err);
    if (strcmp(shell, "bash") == 0) print_bash();
    else if (strcmp(shell, "zsh") == 0) print_zsh();
    else if (strcmp(shell, "fish") == 0) print_fish();
    else
        code = qr_fail(&err, QR_INVALID_ARGUMENT,
                       "the shell is missing or not supported; give bash, zsh or fish");
    return qr_exit_report(code, &err);
}
