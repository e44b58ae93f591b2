/* sim/kernels/isa.h — precisions, and which kernel tables there are: a table is one instruction
 * set's. All give the same bits. */
#ifndef QR_SIM_KERNELS_ISA_H
#define QR_SIM_KERNELS_ISA_H

#include <stdbool.h>

#include "base/err.h"

enum qr_precision { QR_SINGLE, QR_DOUBLE };

enum qr_isa { QR_ISA_PORTABLE, QR_ISA_AVX2, QR_ISA_AVX512, QR_ISA_NEON, QR_ISAS };
const char *qr_isa_name(enum qr_isa isa); /* "portable" "avx2" "avx512" "neon" */
bool qr_isa_available(enum qr_isa isa);   /* this CPU and OS */
enum qr_isa qr_isa_best(void);
/* "auto" or a name. INVALID_ARGUMENT: unknown (nearest known name), or a table that this
 * machine has not (which it has). Without FMA portable must be asked for: "auto" fails there
 * and says why. */
QR_MUST_CHECK enum qr_code qr_isa_parse(const char *name, enum qr_isa *ret, struct qr_err *err);

#endif
