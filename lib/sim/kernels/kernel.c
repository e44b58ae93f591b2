/* sim/kernels/kernel.c — names of the kernel tables, and which of them this machine supports. Start
 * reading at qr_isa_parse() and qr_kernels_of(). */
#include <string.h>

#include "base/parse.h"
#include "sim/kernels/kernel.h"

#if defined __x86_64__
#define HAVE_X86 1
#else
#define HAVE_X86 0
#endif
#if defined __aarch64__
#define HAVE_NEON 1
#else
#define HAVE_NEON 0
#endif

static const char *const names[QR_ISAS] = {"portable", "avx2", "avx512", "neon"};

const char *qr_isa_name(enum qr_isa isa) { return names[isa]; }

static bool cpu_has_fma(void) {
#if HAVE_X86
    return __builtin_cpu_supports("fma");
#else
    return true; /* The base of arm64 includes FMA. */
#endif
}

bool qr_isa_available(enum qr_isa isa) {
    switch (isa) {
    case QR_ISA_PORTABLE: return true;
#if HAVE_X86
    case QR_ISA_AVX2: return __builtin_cpu_supports("avx2") && cpu_has_fma();
    case QR_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               cpu_has_fma();
#endif
    case QR_ISA_NEON: return HAVE_NEON;
    default: return false;
    }
}

enum qr_isa qr_isa_best(void) {
    for (int i = QR_ISAS - 1; i > 0; i--)
        if (qr_isa_available((enum qr_isa)i)) return (enum qr_isa)i;
    return QR_ISA_PORTABLE;
}

enum qr_code qr_isa_parse(const char *name, enum qr_isa *ret, struct qr_err *err) {
    if (strcmp(name, "auto") == 0) {
        if (!cpu_has_fma())
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "cannot choose an isa: this CPU has no fused multiply-add (FMA); isa portable "
                "gives the same bits in software, about a hundred times slower");
        *ret = qr_isa_best();
        return QR_OK;
    }
    for (int i = 0; i < QR_ISAS; i++) {
        enum qr_isa isa = (enum qr_isa)i;
        if (strcmp(name, names[i]) != 0) continue;
        if (!qr_isa_available(isa))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "isa %s: this CPU does not support %s; choose portable%s%s%s", name,
                           name, qr_isa_available(QR_ISA_AVX2) ? ", avx2" : "",
                           qr_isa_available(QR_ISA_AVX512) ? ", avx512" : "",
                           HAVE_NEON ? ", neon" : "");
        *ret = isa;
        return QR_OK;
    }
    const char *near = qr_nearest(name, names, QR_ISAS);
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "isa \"%.32s\" is unknown%s%s%s; choose auto, portable, avx2, avx512 or neon",
                   name, near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

const struct qr_kernels *qr_kernels_of(enum qr_isa isa, enum qr_precision precision) {
    switch (isa) {
#if HAVE_X86
    case QR_ISA_AVX2: return qr_kernels_avx2[precision];
    case QR_ISA_AVX512: return qr_kernels_avx512[precision];
#endif
#if HAVE_NEON
    case QR_ISA_NEON: return qr_kernels_neon[precision];
#endif
    default: return qr_kernels_portable[precision];
    }
}
