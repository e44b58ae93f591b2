#include <unistd.h>

#include "worker/worker.h"

int main(int argc, char **argv) { return qr_worker_main(argc, argv, environ); }
