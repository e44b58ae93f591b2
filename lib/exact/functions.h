/* exact/functions.h — elementary functions with the same bits on every machine.
 *
 * Built from +, -, *, /, fma, sqrt and integer operations alone, so IEEE fixes every bit. The
 * accuracy of each function is stated in ulp of the float64 result and tested against libm's long
 * double.
 * Method    argument reduction (Cody-Waite / Payne-Hanek) and polynomials; sources named
 *           in functions.c and trig.c.
 * Threads   pure functions.
 */
#ifndef QR_EXACT_FUNCTIONS_H
#define QR_EXACT_FUNCTIONS_H

/* <= 1 ulp for any finite x; NaN for infinities. */
double qr_sin(double x);
double qr_cos(double x);
void qr_sincos(double x, double *ret_sin, double *ret_cos);
/* sin(pi x) and cos(pi x), for exponents in half-turns. <= 1 ulp; exact at multiples of 1/2. */
void qr_sincospi(double x, double *ret_sin, double *ret_cos);
/* qr_sincospi of QR_SINCOSPI_MANY numbers at once, with the same bits, in a quarter of the time. */
enum { QR_SINCOSPI_MANY = 8 };
void qr_sincospi_many(const double x[QR_SINCOSPI_MANY], double ret_sin[QR_SINCOSPI_MANY],
                      double ret_cos[QR_SINCOSPI_MANY]);
double qr_tan(double x);  /* <= 2 ulp, any finite x */
double qr_asin(double x); /* <= 1 ulp; NaN outside [-1, 1] */
double qr_acos(double x); /* <= 1 ulp; NaN outside [-1, 1] */
double qr_atan(double x); /* <= 1 ulp */
/* Angle of the point (x, y), in (-pi, pi]; 0 at the origin; ignores the sign of zeros. <= 2 ulp. */
double qr_atan2(double y, double x);
double qr_hypot(double x, double y); /* length of the vector (x, y); <= 2 ulp */
double qr_exp(double x);             /* <= 1 ulp; 0 and infinity beyond the range */
double qr_expm1(double x);           /* e^x - 1; <= 1 ulp */
double qr_log(double x);             /* <= 1 ulp; log(0) = -inf, NaN below 0 */
double qr_log1p(double x);           /* log(1 + x); <= 1 ulp; -inf at -1, NaN below */
double qr_tanh(double x);            /* <= 2 ulp */
double qr_sigmoid(double x);         /* 1 / (1 + e^-x); <= 2 ulp */
double qr_pow(double x, double y);   /* <= 1 ulp; NaN for x < 0 unless y is an integer */

#endif
