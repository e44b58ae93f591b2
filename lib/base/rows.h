/* base/rows.h — what follows from a table of rows ROW(kind, name, ...), an X-macro with a row for
 * each thing of a kind: enum { X_ROWS(QR_ROW_KIND) XS } has the kinds, {X_ROWS(QR_ROW_NAME)} the
 * names by kind.
 */
#ifndef QR_BASE_ROWS_H
#define QR_BASE_ROWS_H

#define QR_ROW_KIND(kind, ...) kind,
#define QR_ROW_NAME(kind, name, ...) [kind] = name,

#endif
