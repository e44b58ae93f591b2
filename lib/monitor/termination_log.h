/* monitor/termination_log.h — the container's termination message: the reason for the exit, shown
 * by `kubectl describe`.
 *
 * What      Writes one sentence into the file that the kubelet created (--termination-log, default
 *           /dev/termination-log); nothing if that file does not exist. Written on every error exit
 *           and on SIGTERM. Without a trailing newline, since the pod's status shows each byte;
 *           with one if the target is not a regular file (/dev/stderr).
 * Security  A job file may be untrusted. If only the job file names the target (and not the
 *           kubelet's default), the target is written only if it is a regular file, not a link, and
 *           empty or as this process left it, so no content is lost. The kubelet creates a new
 *           empty file for each start of a container. A target from a flag or a variable is the
 *           user's choice and is overwritten.
 * Threads   any; call qr_termination_log_to before the other functions.
 */
#ifndef QR_MONITOR_TERMINATION_LOG_H
#define QR_MONITOR_TERMINATION_LOG_H

#include <stdbool.h>
#include <stddef.h>

void qr_termination_log_to(const char *path, bool from_job_file); /* copied; NULL: the default */
/* True when the target exists, but a job file may not overwrite it. */
bool qr_termination_log_refused(void);
/* Replaces the message. Errors are ignored. */
void qr_termination_log(const char *text);
/* Writes "step 17 of 100: drained on SIGTERM" into ret, from base/counter.h; before the first
 * committed step "before the first step: ...". */
void qr_termination_log_drained(char *ret, size_t bytes);

#endif
