/* monitor/termination_log.h — the container's termination message: why it ended, for whoever runs
 * `kubectl describe`.
 *
 * What      One sentence into the file that the kubelet made (settings: --termination-log, else
 *           /dev/termination-log); nothing where that file is missing. Written on every error exit
 *           and on SIGTERM. No newline ends it, since the pod's status shows each byte; on what
 *           is no ordinary file (/dev/stderr) one does.
 * Strangers a job file may come from one. Where only it names the file (and not the kubelet's own
 *           place), the file is written when it is an ordinary one, no link, and empty, or as this
 *           process left it: what is there is nobody's loss. The kubelet makes a new empty file for
 *           each start of a container. A flag or a variable is the user's own word: what they name
 *           is overwritten.
 * Threads   any; qr_termination_log_to before the first use.
 */
#ifndef QR_MONITOR_TERMINATION_LOG_H
#define QR_MONITOR_TERMINATION_LOG_H

#include <stdbool.h>
#include <stddef.h>

void qr_termination_log_to(const char *path, bool from_job_file); /* copied; NULL: the default */
/* The file is there, and is not one that the words of a job file may replace. */
bool qr_termination_log_refused(void);
void qr_termination_log(const char *text);
/* "step 17 of 100: drained on SIGTERM", by base/counter.h; before the first committed step "before
 * the first step: ...". */
void qr_termination_log_drained(char *ret, size_t bytes);

#endif
