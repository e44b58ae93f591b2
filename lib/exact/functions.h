/* exact/functions.h — elementary functions with the same bits on every machine.
 *
 * Built from +, -, *, /, fma, sqrt and integer operations alone, so IEEE fixes every bit. Accuracy
 * is stated per function (ulp of the float64 result) and tested against libm's long double.
 * Method    argument reduction (Cody-Waite / Payne-Hanek) and polynomials; sources named
 *           in functions.c.
 */
#ifndef QR_EXACT_FUNCTIONS_H
#define QR_EXACT_FUNCTIONS_H

double qr_sin(double x); /* <= 1 ulp, any finite x */
double qr_cos(double x);
void qr_sincos(double x, double *ret_sin, double *ret_cos);
/* sin(pi x), cos(pi x): exact at multiples of 1/2; for gate exponents in half-turns. <= 1 ulp. */
void qr_sincospi(double x, double *ret_sin, double *ret_cos);
/* The same of each, side by side: a quarter of the time. */
enum { QR_SINCOSPI_MANY = 8 };
void qr_sincospi_many(const double x[QR_SINCOSPI_MANY], double ret_sin[QR_SINCOSPI_MANY],
                      double ret_cos[QR_SINCOSPI_MANY]);
double qr_tan(double x);  /* <= 2 ulp, any finite x */
double qr_asin(double x); /* <= 1 ulp; NaN outside [-1, 1] */
double qr_acos(double x); /* <= 1 ulp; NaN outside [-1, 1] */
double qr_atan(double x); /* <= 1 ulp */
/* The angle of (x, y), in (-pi, pi]; 0 at the origin, and zeros have no sign. <= 2 ulp */
double qr_atan2(double y, double x);
double qr_hypot(double x, double y); /* the length of (x, y); <= 2 ulp */
double qr_exp(double x);             /* <= 1 ulp; 0 and inf beyond range */
double qr_expm1(double x);
/* <= 1 ulp; log(0) = -inf, NaN below 0 */
double qr_log(double x);
double qr_log1p(double x);
double qr_tanh(double x);    /* <= 2 ulp */
double qr_sigmoid(double x); /* <= 2 ulp */
/* <= 1 ulp; NaN below 0 where y is no integer */
double qr_pow(double x, double y);

#endif
