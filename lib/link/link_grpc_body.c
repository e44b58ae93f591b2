/* link/link_grpc_body.c — messages as gRPC byte buffers, and the borrowed bodies that gRPC still
 * reads. Start reading at link_grpc_pack(). */
#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "link/link.h"
#include "link/link_grpc_parts_impl.h"

enum {
    QUEUE_BYTES = 8 << 20,
    COPY_BELOW_BYTES = 16 << 10,
    SMALL_BYTES = 512 << 10,
    KEPT_BYTES = 8 << 20,
    MAPPED_BYTES = 4 << 20,
    LARGEST_BYTES = QR_LINK_MAX_MESSAGE + (64 << 10)
};

/* gRPC reads into buffers of up to a chunk, and frees them when the message has been processed. By
 * default the C library would return each buffer to the system, and every chunk would be written
 * into pages that must be cleared and mapped first. Unread bytes of a stream are read at once: two
 * windows of a ring, when its members share processors. */
void link_grpc_keep_memory(void) {
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
}

/* Counts borrowed bodies. May outlive the link: the last reference frees it. */
struct link_grpc_borrowed {
    atomic_size_t refs; /* bodies + 1 for the link */
};

struct link_grpc_borrowed *link_grpc_borrowed_new(void) {
    struct link_grpc_borrowed *b = qr_xcalloc(1, sizeof *b);
    atomic_init(&b->refs, 1);
    return b;
}

void link_grpc_borrowed_release(void *ctx) {
    struct link_grpc_borrowed *b = ctx;
    if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1) free(b);
}

size_t link_grpc_borrowed(const struct link_grpc_borrowed *b) {
    return atomic_load_explicit(&b->refs, memory_order_acquire) - 1;
}

static grpc_slice body_slice(struct link_grpc_borrowed *b, struct qr_bytes body) {
    union {
        const uint8_t *in;
        void *out;
    } p = {.in = body.p}; /* gRPC only reads it */
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return grpc_slice_new_with_user_data(p.out, body.n, link_grpc_borrowed_release, b);
}

grpc_byte_buffer *link_grpc_pack(struct link_grpc_borrowed *b, struct qr_bytes head,
                                 struct qr_bytes body) {
    bool copy = body.n <= COPY_BELOW_BYTES;
    grpc_slice s[2];
    s[0] = grpc_slice_malloc(head.n + (copy ? body.n : 0));
    uint8_t *p = GRPC_SLICE_START_PTR(s[0]);
    if (head.n) memcpy(p, head.p, head.n);
    if (copy && body.n) memcpy(p + head.n, body.p, body.n);
    if (!copy) s[1] = body_slice(b, body);
    grpc_byte_buffer *packed = grpc_raw_byte_buffer_create(s, copy ? 1 : 2);
    for (int i = 0; i < (copy ? 1 : 2); i++) grpc_slice_unref(s[i]);
    return packed;
}

bool link_grpc_queue_full(const struct link_grpc_queue *q, size_t bytes) {
    return q->n == LINK_GRPC_QUEUE || q->all_bytes + bytes > QUEUE_BYTES;
}

void link_grpc_queue_put(struct link_grpc_queue *q, grpc_byte_buffer *b, size_t bytes) {
    unsigned last = (q->first + q->n++) % LINK_GRPC_QUEUE;
    q->item[last] = b;
    q->bytes[last] = bytes;
    q->all_bytes += bytes;
}

grpc_byte_buffer *link_grpc_queue_take(struct link_grpc_queue *q) {
    grpc_byte_buffer *b = q->item[q->first];
    q->all_bytes -= q->bytes[q->first];
    q->first = (q->first + 1) % LINK_GRPC_QUEUE;
    q->n--;
    return b;
}

void link_grpc_queue_drop(struct link_grpc_queue *q) {
    while (q->n) grpc_byte_buffer_destroy(link_grpc_queue_take(q));
}

static struct qr_pieces pieces_of(struct link_grpc_unpacked *u, const grpc_slice_buffer *sb) {
    if (sb->count > u->cap) {
        u->cap = 2 * sb->count;
        u->piece = qr_xreallocarray(u->piece, u->cap, sizeof *u->piece);
    }
    for (size_t i = 0; i < sb->count; i++)
        u->piece[i] =
            qr_bytes_of(GRPC_SLICE_START_PTR(sb->slices[i]), GRPC_SLICE_LENGTH(sb->slices[i]));
    return (struct qr_pieces){u->piece, sb->count, sb->length};
}

struct qr_bytes link_grpc_unpack(struct link_grpc_unpacked *u, const grpc_byte_buffer *b,
                                 struct qr_pieces *ret_pieces) {
    const grpc_slice_buffer *sb = &b->data.raw.slice_buffer;
    if (sb->count == 1)
        return qr_bytes_of(GRPC_SLICE_START_PTR(sb->slices[0]), GRPC_SLICE_LENGTH(sb->slices[0]));
    if (ret_pieces && sb->count) {
        *ret_pieces = pieces_of(u, sb);
        return qr_bytes_of(NULL, sb->length);
    }
    if (sb->length > u->size) {
        u->size = sb->length <= SMALL_BYTES     ? SMALL_BYTES
                  : sb->length <= LARGEST_BYTES ? LARGEST_BYTES
                                                : sb->length;
        free(u->bytes);
        u->bytes = qr_xmalloc(u->size);
    }
    size_t n = 0;
    for (size_t i = 0; i < sb->count; i++) {
        memcpy(u->bytes + n, GRPC_SLICE_START_PTR(sb->slices[i]), GRPC_SLICE_LENGTH(sb->slices[i]));
        n += GRPC_SLICE_LENGTH(sb->slices[i]);
    }
    return qr_bytes_of(u->bytes, n);
}
