/* cmd/qringd/main.c — the worker program. Start reading at qr_worker_main() in worker/worker.c. */
#include <unistd.h>

#include "worker/worker.h"

int main(int argc, char **argv) { return qr_worker_main(argc, argv, environ); }
