/* tests/jobs.h — texts of small jobs, and parts of them. */
#ifndef TESTS_JOBS_H
#define TESTS_JOBS_H

#define QCNN(more)                                                                                 \
    "{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":8,\"stages\":1},"          \
    "\"readouts\":[\"Z4\",\"Z5\"]" more "}"
#define Q QCNN("")
#define D "{\"layer\":\"dense\",\"units\":1}"
#define MODEL "\"model\":[" Q "," D "]"
#define DATA "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":2}"
#define JOB(...) "{" MODEL "," DATA __VA_ARGS__ "}"
#define WATCHING(watch, ...)                                                                       \
    "{\"model\":[" QCNN(",\"watch\":{" watch "}") "," D "]," DATA __VA_ARGS__ "}"

#define SCHEDULE(name, keys)                                                                       \
    ",\"train\":{\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":{\"schedule\":\"" name          \
    "\"" keys "}}}"

/* Two qubits without data gates. */
#define TWO                                                                                        \
    "\"circuit\":{\"qubits\":2,\"gates\":[{\"gate\":\"RX\",\"qubits\":[0],\"angle\":{"             \
    "\"parameter\":\"a\"}}]}"
#define H(terms) "{\"layer\":\"quantum\"," TWO ",\"readouts\":[{\"hamiltonian\":" terms "}]}"
#define NONE "\"data\":{\"source\":\"none\"}"
#define STILL(optimizer)                                                                           \
    "{\"model\":[{\"layer\":\"quantum\"," TWO "}]," NONE ",\"train\":{\"loss\":\"expectation\","   \
    "\"optimizer\":{\"name\":\"" optimizer "}}}"

#endif
