/* Data names in files of weights: any text gives a list or an error, and a list that was read is
 * written back unchanged; any HDF5 or safetensors file gives its names or an error. */
#include <string.h>

#include "base/mem.h"
#include "record/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_name_list list = {0}, back = {0};
    struct qr_data_names names = {0};
    struct qr_err err;
    if (qr_name_list_parse(qr_bytes_of(data, n), "text", &list, &err) == QR_OK) {
        struct qr_buf text = {0};
        qr_name_list_json(&list, &text);
        QR_ASSERT(qr_name_list_parse(qr_buf_view(&text), "written", &back, &err) == QR_OK);
        QR_ASSERT(back.n == list.n);
        for (size_t i = 0; i < list.n; i++) QR_ASSERT(strcmp(list.v[i], back.v[i]) == 0);
        qr_buf_free(&text);
    } else {
        QR_ASSERT(err.msg[0] != 0);
    }
    qr_name_list_fini(&list);
    qr_name_list_fini(&back);
    for (int f = QR_WEIGHTS_H5; f <= QR_WEIGHTS_SAFETENSORS; f++) {
        if (qr_weights_names((enum qr_weights_format)f, qr_bytes_of(data, n), "file", &names,
                             &err) == QR_OK)
            qr_data_names_fini(&names);
    }
    return 0;
}
