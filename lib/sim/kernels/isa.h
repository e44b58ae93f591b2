/* sim/kernels/isa.h — precisions and instruction sets. Each instruction set has a table of kernels
 * (kernel.h); all tables give the same bits. */
#ifndef QR_SIM_KERNELS_ISA_H
#define QR_SIM_KERNELS_ISA_H

#include <stdbool.h>

#include "base/err.h"

enum qr_precision { QR_SINGLE, QR_DOUBLE };

enum qr_isa { QR_ISA_PORTABLE, QR_ISA_AVX2, QR_ISA_AVX512, QR_ISA_NEON, QR_ISAS };
const char *qr_isa_name(enum qr_isa isa); /* "portable" "avx2" "avx512" "neon" */
bool qr_isa_available(enum qr_isa isa);   /* supported by this CPU and OS */
/* The fastest table that this machine supports. */
enum qr_isa qr_isa_best(void);
/* Parses "auto" or the name of a table.
 *
 * Errors:   INVALID_ARGUMENT (unknown name, the message has the nearest one; a table that this CPU
 *           does not support, the message lists the supported ones; "auto" on a CPU without FMA,
 *           where portable must be requested by name)
 */
QR_MUST_CHECK enum qr_code qr_isa_parse(const char *name, enum qr_isa *ret, struct qr_err *err);

#endif
