/* api/xla_ffi.c — handlers of XLA's foreign function interface for lib/python/qring/jax.py: a
 * compiled JAX program calls qring_forward and qring_vjp without Python. Start reading at
 * handle_forward().
 *
 * Build     into a shared object of its own, qring/_xla.so, against the headers in
 *           jax.ffi.include_dir(). It links with no other library: qring_xla_bind receives the
 *           functions of libqring.
 * Versions  Only structs and fields are read that API version 0.0 has, so qring_xla_bind can set
 *           the minor version to that of the running XLA.
 * Functions A program contains a function's number, not its address: the number is not used again
 *           after qring_xla_remove, so a program that outlives its function fails with a message.
 * Threads   any. Calls of one function are serialised by a mutex. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xla/ffi/api/c_api.h>

#include "api/qring.h"

typedef enum qring_code forward_call(struct qring_function *, const struct qring_array *,
                                     const struct qring_array *, size_t, const struct qring_array *,
                                     struct qring_error *);
typedef enum qring_code vjp_call(struct qring_function *, const struct qring_array *,
                                 const struct qring_array *, size_t, const struct qring_array *,
                                 const struct qring_array *, const struct qring_array *,
                                 const struct qring_array *, struct qring_sum *,
                                 struct qring_error *);
typedef enum qring_code jacobian_call(struct qring_function *, const struct qring_array *,
                                      const struct qring_array *, size_t,
                                      const struct qring_array *, const struct qring_array *,
                                      const struct qring_array *, struct qring_error *);

/* ---- registered functions ---- */

struct xla_function {
    struct xla_function *next;
    struct qring_function *f;
    size_t n_parameters, n_inputs, n_outputs;
    int64_t number;
    unsigned users; /* handlers that run or wait for `turn` */
    pthread_mutex_t turn;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t unused; /* a function's users became 0 */
    struct xla_function *first;
    int64_t last_number;
    int minor_version;
    forward_call *forward;
    vjp_call *vjp;
    jacobian_call *jacobian;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER,
              .unused = PTHREAD_COND_INITIALIZER,
              .minor_version = XLA_FFI_API_MINOR};

/* Sets the functions of libqring, and XLA's minor version (negative: that of the headers). Called
 * once, before all others. */
QRING_EXPORT void qring_xla_bind(forward_call *forward, vjp_call *vjp, jacobian_call *jacobian,
                                 int minor_version);
/* Returns a number for programs to call f by, positive; 0 if memory is exhausted. The sizes are
 * those of f. */
QRING_EXPORT int64_t qring_xla_add(struct qring_function *f, size_t n_parameters, size_t n_inputs,
                                   size_t n_outputs);
/* Removes a function after running calls have ended; an unknown number is ignored. */
QRING_EXPORT void qring_xla_remove(int64_t number);
/* weights [P], inputs [S][I] -> outputs [S][R]; attribute "function": int64. Each array may have
 * further leading dimensions, of size 1 where it does not depend on them (expand_dims of
 * jax.ffi.ffi_call). */
QRING_EXPORT XLA_FFI_Error *qring_xla_forward(XLA_FFI_CallFrame *frame);
/* weights, inputs, cotangents [S][R] -> derivatives by weights [P] and, if there is a second
 * result, by inputs [S][I]; attribute and leading dimensions as above. */
QRING_EXPORT XLA_FFI_Error *qring_xla_vjp(XLA_FFI_CallFrame *frame);

void qring_xla_bind(forward_call *forward, vjp_call *vjp, jacobian_call *jacobian,
                    int minor_version) {
    pthread_mutex_lock(&registry.mutex);
    registry.forward = forward;
    registry.vjp = vjp;
    registry.jacobian = jacobian;
    if (minor_version >= 0) registry.minor_version = minor_version;
    pthread_mutex_unlock(&registry.mutex);
}

int64_t qring_xla_add(struct qring_function *f, size_t n_parameters, size_t n_inputs,
                      size_t n_outputs) {
    struct xla_function *entry = calloc(1, sizeof *entry);
    if (!entry) return 0;
    entry->f = f;
    entry->n_parameters = n_parameters;
    entry->n_inputs = n_inputs;
    entry->n_outputs = n_outputs;
    pthread_mutex_init(&entry->turn, NULL);
    pthread_mutex_lock(&registry.mutex);
    int64_t number = entry->number = ++registry.last_number;
    entry->next = registry.first;
    registry.first = entry;
    pthread_mutex_unlock(&registry.mutex);
    return number;
}

void qring_xla_remove(int64_t number) {
    pthread_mutex_lock(&registry.mutex);
    struct xla_function **at = &registry.first, *entry;
    while (*at && (*at)->number != number) at = &(*at)->next;
    if ((entry = *at)) *at = entry->next;
    while (entry && entry->users) pthread_cond_wait(&registry.unused, &registry.mutex);
    pthread_mutex_unlock(&registry.mutex);
    if (!entry) return;
    pthread_mutex_destroy(&entry->turn);
    free(entry);
}

/* Returns the function, locked; NULL: it was removed. */
static struct xla_function *registry_lock(int64_t number) {
    pthread_mutex_lock(&registry.mutex);
    struct xla_function *entry = registry.first;
    while (entry && entry->number != number) entry = entry->next;
    if (entry) entry->users++;
    pthread_mutex_unlock(&registry.mutex);
    if (entry) pthread_mutex_lock(&entry->turn);
    return entry;
}

static void registry_unlock(struct xla_function *entry) {
    pthread_mutex_unlock(&entry->turn);
    pthread_mutex_lock(&registry.mutex);
    if (!--entry->users) pthread_cond_broadcast(&registry.unused);
    pthread_mutex_unlock(&registry.mutex);
}

/* ---- call frames ---- */

static XLA_FFI_Error *frame_fail(const XLA_FFI_CallFrame *frame, enum qring_code code,
                                 const char *message) {
    XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
                                      .message = message,
                                      .errc = (XLA_FFI_Error_Code)code}; /* both are gRPC's */
    return frame->api->XLA_FFI_Error_Create(&args);
}

/* XLA asks for the version before a handler's first call. */
static bool frame_is_query(XLA_FFI_CallFrame *frame) {
    XLA_FFI_Extension_Base *extension = frame->extension_start;
    if (!extension || extension->type != XLA_FFI_Extension_Metadata) return false;
    XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)(void *)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = registry.minor_version;
    metadata->traits = 0;
    return true;
}

static bool frame_number(const XLA_FFI_CallFrame *frame, int64_t *ret) {
    static const char name[] = "function";
    for (int64_t i = 0; i < frame->attrs.size; i++) {
        const XLA_FFI_ByteSpan *at = frame->attrs.names[i];
        if (at->len != sizeof name - 1 || memcmp(at->ptr, name, at->len) != 0) continue;
        const XLA_FFI_Scalar *scalar = frame->attrs.attrs[i];
        if (frame->attrs.types[i] != XLA_FFI_AttrType_SCALAR ||
            scalar->dtype != XLA_FFI_DataType_S64)
            return false;
        memcpy(ret, scalar->value, sizeof *ret);
        return true;
    }
    return false;
}

/* An argument or result: one block of `rank` dimensions for each element of its leading
 * dimensions. */
struct xla_block {
    char *data;
    size_t item, block_bytes;
    size_t n_leading;
    const int64_t *dims; /* leading dimensions, then those of the block */
    struct qring_array array;
};

static bool block_read(const XLA_FFI_Buffer *buffer, size_t rank, struct xla_block *ret) {
    bool single = buffer->dtype == XLA_FFI_DataType_F32;
    if (buffer->rank < (int64_t)rank || (!single && buffer->dtype != XLA_FFI_DataType_F64))
        return false;
    size_t item = single ? sizeof(float) : sizeof(double), bytes = item;
    size_t n_leading = (size_t)buffer->rank - rank;
    *ret = (struct xla_block){
        .data = buffer->data, .item = item, .n_leading = n_leading, .dims = buffer->dims};
    ret->array.dtype = single ? QRING_FLOAT32 : QRING_FLOAT64;
    for (size_t i = rank; i-- > 0;) {
        ret->array.strides[i] = (ptrdiff_t)bytes;
        bytes *= (size_t)buffer->dims[n_leading + i];
    }
    ret->block_bytes = bytes;
    return true;
}

static size_t block_dim(const struct xla_block *b, size_t i) {
    return (size_t)b->dims[b->n_leading + i];
}

/* Arguments and results of one call. Every element of the leading dimensions is a lane. */
struct lanes {
    struct xla_block weights, inputs, cotangents;
    struct xla_block outputs, d_weights, d_inputs; /* results */
    bool by_inputs;                                /* d_inputs is a result */
    size_t samples;                                /* S, of one lane */
    size_t n_leading;
    const int64_t *leading;  /* sizes of the leading dimensions */
    size_t n_outer;          /* the first ones, whose product is `outer` */
    size_t outer, inner;     /* lanes = outer * inner, see lanes_split() */
    size_t cotangents_inner; /* `inner`, or 1: the same cotangents for all inner lanes */
};

/* Splits the leading dimensions. Along the last ones the weights are the same and the inputs are
 * not repeated, so that `inner` lanes lie in memory as one batch. */
static void lanes_split(struct lanes *l) {
    bool once = true, repeated = true; /* cotangents along the inner dimensions */
    size_t k = l->n_leading;
    l->outer = l->inner = 1;
    for (; k; k--) {
        int64_t n = l->leading[k - 1];
        if (l->weights.dims[k - 1] != 1 || l->inputs.dims[k - 1] != n) break;
        bool still_once = once, still_repeated = repeated;
        if (l->cotangents.dims) {
            still_once = once && l->cotangents.dims[k - 1] == n;
            still_repeated = repeated && l->cotangents.dims[k - 1] == 1;
            if (!still_once && !still_repeated) break;
        }
        once = still_once;
        repeated = still_repeated;
        l->inner *= (size_t)n;
    }
    l->n_outer = k;
    for (size_t i = 0; i < k; i++) l->outer *= (size_t)l->leading[i];
    l->cotangents_inner = once ? l->inner : 1;
}

/* Points b->array at outer lane number `lane`, where `inner` blocks lie together. */
static const struct qring_array *lanes_at(const struct lanes *l, struct xla_block *b, size_t lane,
                                          size_t inner) {
    size_t at = 0, step = 1;
    for (size_t i = l->n_outer; i-- > 0;) {
        size_t n = (size_t)l->leading[i], index = lane % n;
        lane /= n;
        if (b->dims[i] != 1) at += index * step;
        step *= (size_t)b->dims[i];
    }
    b->array.data = b->data + at * inner * b->block_bytes;
    return &b->array;
}

static bool lanes_read_arguments(struct lanes *l, const XLA_FFI_CallFrame *frame, int64_t n_args) {
    if (frame->args.size != n_args || frame->rets.size < 1 ||
        !block_read(frame->args.args[0], 1, &l->weights) ||
        !block_read(frame->args.args[1], 2, &l->inputs))
        return false;
    l->samples = block_dim(&l->inputs, 0);
    l->n_leading = l->inputs.n_leading;
    return l->weights.n_leading == l->n_leading;
}

static bool lanes_read_outputs(struct lanes *l, const XLA_FFI_Buffer *buffer,
                               struct xla_block *ret) {
    return block_read(buffer, 2, ret) && ret->n_leading == l->n_leading &&
           block_dim(ret, 0) == l->samples;
}

static bool lanes_read_derivatives(struct lanes *l, const XLA_FFI_CallFrame *frame) {
    if (!block_read(frame->rets.rets[0], 1, &l->d_weights) ||
        l->d_weights.n_leading != l->n_leading ||
        block_dim(&l->d_weights, 0) != block_dim(&l->weights, 0))
        return false;
    l->leading = l->d_weights.dims;
    if (!l->by_inputs) return true;
    return lanes_read_outputs(l, frame->rets.rets[1], &l->d_inputs) &&
           block_dim(&l->d_inputs, 1) == block_dim(&l->inputs, 1);
}

/* The program's shapes are those of another function where a program was loaded from a file. */
static bool lanes_fit(const struct lanes *l, const struct xla_function *entry,
                      const struct xla_block *outputs) {
    return block_dim(&l->weights, 0) == entry->n_parameters &&
           block_dim(&l->inputs, 1) == entry->n_inputs && block_dim(outputs, 1) == entry->n_outputs;
}

static XLA_FFI_Error *lanes_fail(const XLA_FFI_CallFrame *frame) {
    return frame_fail(frame, QRING_INVALID_ARGUMENT,
                      "cannot call qring from XLA: the arguments are not those of a function; "
                      "compile the program in this process, with this version of qring");
}

static void unknown_function(struct qring_error *err, int64_t number) {
    err->code = QRING_FAILED_PRECONDITION;
    snprintf(err->message, sizeof err->message,
             "cannot call function %lld from XLA: the object that qring.jax.expval returned was "
             "deleted; keep it as long as programs that call it",
             (long long)number);
}

/* ---- handlers ---- */

static enum qring_code handle_forward(struct lanes *l, struct qring_function *f,
                                      struct qring_error *err) {
    enum qring_code code = QRING_OK;
    for (size_t i = 0; i < l->outer && code == QRING_OK; i++)
        code = registry.forward(f, lanes_at(l, &l->weights, i, 1),
                                lanes_at(l, &l->inputs, i, l->inner), l->inner * l->samples,
                                lanes_at(l, &l->outputs, i, l->inner), err);
    return code;
}

/* Runs `handle` on function number `number`. */
static XLA_FFI_Error *call_function(const XLA_FFI_CallFrame *frame, struct lanes *l,
                                    const struct xla_block *outputs, int64_t number,
                                    enum qring_code (*handle)(struct lanes *,
                                                              struct qring_function *,
                                                              struct qring_error *)) {
    struct qring_error err;
    struct xla_function *entry = registry_lock(number);
    if (!entry) {
        unknown_function(&err, number);
        return frame_fail(frame, err.code, err.message);
    }
    bool fits = lanes_fit(l, entry, outputs);
    lanes_split(l);
    enum qring_code code = fits ? handle(l, entry->f, &err) : QRING_INVALID_ARGUMENT;
    registry_unlock(entry);
    if (!fits) return lanes_fail(frame);
    return code == QRING_OK ? NULL : frame_fail(frame, code, err.message);
}

XLA_FFI_Error *qring_xla_forward(XLA_FFI_CallFrame *frame) {
    if (frame_is_query(frame)) return NULL;
    struct lanes l = {0};
    int64_t number;
    if (!frame_number(frame, &number) || !lanes_read_arguments(&l, frame, 2) ||
        !lanes_read_outputs(&l, frame->rets.rets[0], &l.outputs))
        return lanes_fail(frame);
    l.leading = l.outputs.dims;
    return call_function(frame, &l, &l.outputs, number, handle_forward);
}

/* The array of block number i behind a. */
static struct qring_array block_array(const struct xla_block *b, const struct qring_array *a,
                                      size_t i) {
    struct qring_array ret = *a;
    ret.data = (char *)a->data + i * b->block_bytes;
    return ret;
}

/* XLA may have no memory for a result without elements. */
static const struct qring_array *block_result(const struct xla_block *b,
                                              const struct qring_array *a) {
    return b->block_bytes ? a : NULL;
}

/* Multiplies the derivatives of every inner lane, at a, by its cotangent, at c. */
static void lanes_scale(const struct lanes *l, const struct xla_block *b,
                        const struct qring_array *a, const struct qring_array *c) {
    size_t n = b->block_bytes / b->item;
    for (size_t i = 0; i < l->inner; i++) {
        struct qring_array ci = block_array(&l->cotangents, c, l->cotangents_inner > 1 ? i : 0);
        double factor = ci.dtype == QRING_FLOAT32 ? (double)*(float *)ci.data : *(double *)ci.data;
        void *row = block_array(b, a, i).data;
        for (size_t k = 0; k < n; k++)
            if (a->dtype == QRING_FLOAT32)
                ((float *)row)[k] = (float)(factor * (double)((float *)row)[k]);
            else ((double *)row)[k] *= factor;
    }
}

/* Derivatives of lanes of one sample and one output each, in one call. */
static enum qring_code handle_rows(struct lanes *l, struct qring_function *f, size_t lane,
                                   struct qring_error *err) {
    const struct qring_array *c = lanes_at(l, &l->cotangents, lane, l->cotangents_inner);
    const struct qring_array *dw = lanes_at(l, &l->d_weights, lane, l->inner);
    const struct qring_array *dx = l->by_inputs ? lanes_at(l, &l->d_inputs, lane, l->inner) : NULL;
    struct qring_array w3 = *dw, x3 = dx ? *dx : (struct qring_array){0};
    w3.strides[0] = (ptrdiff_t)l->d_weights.block_bytes;
    w3.strides[1] = w3.strides[0];
    w3.strides[2] = (ptrdiff_t)l->d_weights.item;
    x3.strides[0] = x3.strides[1] = (ptrdiff_t)l->d_inputs.block_bytes;
    x3.strides[2] = (ptrdiff_t)l->d_inputs.item;
    enum qring_code code = registry.jacobian(
        f, lanes_at(l, &l->weights, lane, 1), lanes_at(l, &l->inputs, lane, l->inner), l->inner,
        NULL, block_result(&l->d_weights, &w3), dx ? &x3 : NULL, err);
    if (code != QRING_OK) return code;
    lanes_scale(l, &l->d_weights, dw, c);
    if (dx) lanes_scale(l, &l->d_inputs, dx, c);
    return code;
}

static enum qring_code handle_lane(struct lanes *l, struct qring_function *f, size_t lane,
                                   struct qring_error *err) {
    const struct qring_array *w = lanes_at(l, &l->weights, lane, 1);
    const struct qring_array *x = lanes_at(l, &l->inputs, lane, l->inner);
    const struct qring_array *c = lanes_at(l, &l->cotangents, lane, l->cotangents_inner);
    const struct qring_array *dw = lanes_at(l, &l->d_weights, lane, l->inner);
    const struct qring_array *dx = l->by_inputs ? lanes_at(l, &l->d_inputs, lane, l->inner) : NULL;
    enum qring_code code = QRING_OK;
    for (size_t i = 0; i < l->inner && code == QRING_OK; i++) {
        struct qring_array xi = block_array(&l->inputs, x, i);
        struct qring_array ci = block_array(&l->cotangents, c, l->cotangents_inner > 1 ? i : 0);
        struct qring_array dwi = block_array(&l->d_weights, dw, i), dxi;
        if (dx) dxi = block_array(&l->d_inputs, dx, i);
        code = registry.vjp(f, w, &xi, l->samples, &ci, NULL, block_result(&l->d_weights, &dwi),
                            dx ? &dxi : NULL, NULL, err);
    }
    return code;
}

static enum qring_code handle_vjp(struct lanes *l, struct qring_function *f,
                                  struct qring_error *err) {
    bool rows = l->inner > 1 && l->samples == 1 && l->cotangents.block_bytes == l->cotangents.item;
    enum qring_code code = QRING_OK;
    for (size_t i = 0; i < l->outer && code == QRING_OK; i++)
        code = rows ? handle_rows(l, f, i, err) : handle_lane(l, f, i, err);
    return code;
}

XLA_FFI_Error *qring_xla_vjp(XLA_FFI_CallFrame *frame) {
    if (frame_is_query(frame)) return NULL;
    struct lanes l = {.by_inputs = frame->rets.size == 2};
    int64_t number;
    if (!frame_number(frame, &number) || !lanes_read_arguments(&l, frame, 3) ||
        !lanes_read_outputs(&l, frame->args.args[2], &l.cotangents) ||
        !lanes_read_derivatives(&l, frame))
        return lanes_fail(frame);
    return call_function(frame, &l, &l.cotangents, number, handle_vjp);
}
