/* base/rows.h — columns of an X-macro table whose rows are ROW(kind, name, ...):
 * enum { X_ROWS(QR_ROW_KIND) XS } declares the kinds, {X_ROWS(QR_ROW_NAME)} lists the names by
 * kind.
 */
#ifndef QR_BASE_ROWS_H
#define QR_BASE_ROWS_H

#define QR_ROW_KIND(kind, ...) kind,
#define QR_ROW_NAME(kind, name, ...) [kind] = name,

#endif
