/* circuit/ansatz/ansatz_rows.c — the table of ansätze, and their names in other programs. Start
 * reading at qr_ansatz_of(). */
#include <string.h>
#include <strings.h>

#include "circuit/ansatz/ansatz_impl.h"

static const struct qr_ansatz rows[] = {
    {"strongly-entangling", {"layers", "ranges", "entangler"}, qr_ansatz_strongly_entangling},
    {"basic-entangler", {"layers", "rotation"}, qr_ansatz_basic_entangler},
    {"simplified-two-design", {"layers"}, qr_ansatz_simplified_two_design},
    {"hardware-efficient",
     {"layers", "rotations", "entanglement", "entangler", "final_rotations"},
     qr_ansatz_hardware_efficient},
    {"qaoa", {"layers", "cost"}, qr_ansatz_qaoa},
    {"uccsd", {"electrons", "singles", "doubles", "layers"}, qr_ansatz_uccsd},
    {"all-singles-doubles", {"electrons", "singles", "doubles"}, qr_ansatz_singles_doubles},
    {"tensor-network", {"kind", "block"}, qr_ansatz_tensor_network},
    {"angle", {"data", "rotation", "scale"}, qr_ansatz_angle_encoder},
    {"iqp", {"data", "layers", "entanglement"}, qr_ansatz_iqp},
    {"zz-feature-map", {"data", "layers", "entanglement", "alpha"}, qr_ansatz_zz_feature_map},
    {"amplitude", {"data", "inputs", "pad_with", "state", "normalize"}, qr_ansatz_amplitude},
};

const struct qr_ansatz *qr_ansatz_at(size_t i) {
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

const struct qr_ansatz *qr_ansatz_of(const char *name) {
    const struct qr_ansatz *a;
    for (size_t i = 0; (a = qr_ansatz_at(i)); i++)
        if (strcmp(a->name, name) == 0) return a;
    return NULL;
}

const char *qr_ansatz_alias(const char *name) {
    static const char *const aliases[][2] = {
        {"StronglyEntanglingLayers", "did you mean 'strongly-entangling'?"},
        {"BasicEntanglerLayers", "did you mean 'basic-entangler'?"},
        {"SimplifiedTwoDesign", "did you mean 'simplified-two-design'?"},
        {"RealAmplitudes", "write 'hardware-efficient' with \"rotations\": [\"RY\"]"},
        {"real_amplitudes", "write 'hardware-efficient' with \"rotations\": [\"RY\"]"},
        {"EfficientSU2", "did you mean 'hardware-efficient'?"},
        {"efficient_su2", "did you mean 'hardware-efficient'?"},
        {"TwoLocal", "did you mean 'hardware-efficient'?"},
        {"n_local", "did you mean 'hardware-efficient'?"},
        {"QAOAAnsatz", "did you mean 'qaoa'?"},
        {"AllSinglesDoubles", "did you mean 'all-singles-doubles'?"},
        {"AngleEmbedding", "did you mean 'angle'?"},
        {"IQPEmbedding", "did you mean 'iqp'?"},
        {"ZZFeatureMap", "did you mean 'zz-feature-map'?"},
        {"AmplitudeEmbedding", "did you mean 'amplitude'?"},
        {"MottonenStatePreparation", "did you mean 'amplitude'?"},
        {"StatePrep", "did you mean 'amplitude'?"},
        {"MPS", "write 'tensor-network' with \"kind\": \"mps\""},
        {"TTN", "write 'tensor-network' with \"kind\": \"ttn\""},
        {"MERA", "write 'tensor-network' with \"kind\": \"mera\""},
        {"BasisEmbedding", "'Basis' is a gate: {\"gate\": \"Basis\", \"state\": {\"data\": 0}}"},
    };
    if (strncasecmp(name, "qml.", 4) == 0) name += 4;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcasecmp(aliases[i][0], name) == 0) return aliases[i][1];
    return NULL;
}
