#!/bin/sh
# Errors in a job file, and unusual values that are allowed.
. "$(dirname "$0")/wrong"

# the profiler
for key in '"x"|profile|an object' '{"step": [1, 2]}|profile|steps' '{"steps": 5}|profile.steps|must be an array' '{"steps": [5]}|profile.steps|the first and the last' \
    '{"steps": [1, 2, 3]}|profile.steps|the first and the last' '{"steps": [0, 2]}|profile.steps[0]|1' '{"steps": [7, 2.5]}|profile.steps[1]|2.5' \
    '{"steps": [9, 8]}|profile.steps|the first step 9 is after the last step 8'; do
    run 2 "${key#*|}" "$(edit 's/"seed": 1/"seed": 1, "profile": '"${key%%|*}"'/' profile)"
done

# user-defined values
logs() { edit "s/\"epochs\": 50/\"epochs\": 2, \"log\": {$1}/" "$2"; }
run 2 "train.log.a: 'lose' is not a value of a step; did you mean loss?" "$(logs '"a": "lose"' log1)"
run 2 'train.log.a|column 7' "$(logs '"a": "loss *"' log2)"
run 2 "train.log: 'loss' is the name of another value" "$(logs '"loss": "step"' log3)"
run 2 'gradient_norm belongs to a step' "$(logs '"a": "gradient_norm + val_loss"' log4)"
run 2 "'a b' is not a valid metric name" "$(logs '"a b": "step"' log5)"
run 2 'uses a value of an evaluation|data.train_fraction' "$(sed 's/"train_fraction": [0-9.]*/"train_fraction": 1/' "$(logs '"a": "val_loss"' log6)" >"$work/log7.json"; echo "$work/log7.json")"

# job files
run 2 'epoch|epochs' "$(edit 's/"epochs": 50/"epoch": 50/' key)"
run 2 'learning_rat|learning_rate' "$(edit 's/learning_rate/learning_rat/' key2)"
run 2 'epochs' "$(edit 's/"epochs": 50/"epochs": "many"/' type)"
run 2 '2^53|line' "$(edit 's/"seed": 1/"seed": 9007199254740993/' big)"
run 2 'the integer 9007199254740993 is above 2^53' "$base" --set seed=9007199254740993
run 2 'batch_size' "$(edit 's/"batch_size": 64/"batch_size": 0/' zero)"
run 2 'mse' "$(edit 's/"mse"/"mes"/' loss)"
run 2 'Z9' "$(edit 's/"Z7"/"Z9"/' readout)"
run 2 '"method": "exact" cannot be combined with "shots"' \
    "$(edit 's/"layer": "quantum"/"layer": "quantum", "method": "exact", "shots": 100/; s/"stages": 1,/"stages": 1, "noise": {"after": {"*": {"channel": "BitFlip", "p": 0.1}}},/' shots)"
# Names of other programs: the suggestion has the same meaning, not the most similar letters.
run 2 "model[0].layer is 'PQC'; did you mean 'quantum'?" "$(edit 's/"quantum"/"PQC"/' pqc)"
run 2 "model[1].layer is 'flatten'; remove it" "$(edit '0,/{"layer": "dense"/s//{"layer": "flatten"}, {"layer": "dense"/' flatten)"
run 2 "train.loss is 'sparse_categorical_crossentropy'; write 'categorical_crossentropy'" "$(edit 's/"mse"/"sparse_categorical_crossentropy"/' sparse)"
run 2 "train.metrics[0] is 'hinge_accuracy'; did you mean 'accuracy'?" "$(edit 's/"metrics": .*/"metrics": ["hinge_accuracy"],/' hinge)"
run 2 "train.metrics[0] is 'f1'; use \"precision\" and \"recall\"" "$(edit 's/"metrics": .*/"metrics": ["f1"],/' f1)"
run 2 'train.metrics must be an array, not the string "accuracy"; write ["accuracy"]' "$(edit 's/"metrics": .*/"metrics": "accuracy",/' one-metric)"
run 2 'train.metrics must be an array, not 5; write [5]' "$(edit 's/"metrics": .*/"metrics": 5,/' metrics-5)"
run 2 "train.loss is 'bce'; did you mean 'binary_crossentropy'?" "$(edit 's/"mse"/"bce"/' bce)"
run 2 'train: unknown key '"'lr'"'; it is a key of the optimizer: {"name": "adam", "learning_rate": 0.01}' "$(edit 's/"epochs": 50/"lr": 0.1/' lr)"
run 2 "the job: unknown key 'epochs'; it is a key of \"train\"; move it there" "$(edit 's/"seed": 1/"epochs": 1/' epochs)"
run 2 "precision is 'float64'; did you mean 'double'?" "$(edit 's/"seed": 1/"precision": "float64"/' float64)"
run 2 "data: unknown key 'path'; did you mean 'url'?" "$(edit 's|"data": .*|"data": {"source": "csv", "path": "d.csv"},|' path)"
optimizer() { edit "s|\"optimizer\": .*|\"optimizer\": {$2}|" "$1"; } # name, keys
run 2 'train.optimizer must be an object, such as {"name": "adam"}, not a string' "$(edit 's|"optimizer": .*|"optimizer": "adam"|' text)"
run 2 "train.optimizer.name is 'QNG'; did you mean 'quantum-natural-gradient'?" "$(optimizer qng '"name": "QNG"')"
run 2 "train.optimizer.name is 'COBYLA'; not supported; use 'spsa' (gradient-free)" "$(optimizer cobyla '"name": "COBYLA"')"
run 2 "unknown key 'eps'; did you mean 'epsilon'?" "$(optimizer eps '"name": "adam", "eps": 1e-8')"
run 2 'train.optimizer.beta_1 is 1; it must be at least 0 and below 1' "$(optimizer beta '"name": "adam", "beta_1": 1')"
run 2 'train.optimizer.learning_rate is -1; it must be at least 0' "$(optimizer minus '"name": "adam", "learning_rate": -1')"
run 2 'train.optimizer.learning_rate must be a number, not a string; a schedule is an object' "$(optimizer word '"name": "adam", "learning_rate": "cosine"')"
run 2 'ema_momentum|no average|use_ema' "$(optimizer ema '"name": "adamw", "ema_momentum": 0.9')"
run 2 'initial_accumulator_value|unknown key' "$(optimizer adadelta '"name": "adadelta", "initial_accumulator_value": 1')"
run 2 'weight_decay|-0.1' "$(optimizer decay '"name": "sgd", "weight_decay": -0.1')"
run 2 'train.optimizer.perturbation is 0' "$(optimizer shift '"name": "spsa", "perturbation": 0')"
run 2 "unknown key 'A'|stability" "$(optimizer calm '"name": "spsa", "A": 10')"
run 2 'train.optimizer.gamma is -1|between 0 and 100' "$(optimizer falls '"name": "spsa", "gamma": -1')"
schedule() { optimizer "$1" "\"name\": \"nadam\", \"learning_rate\": {\"schedule\": $2}"; }
run 2 'first_decay_steps is missing|cosine_restarts' "$(schedule restarts '"cosine_restarts"')"
run 2 't_mul is 0.5|between 1 and 1048576' "$(schedule shrinks '"cosine_restarts", "first_decay_steps": 9, "t_mul": 0.5')"
run 2 "schedule is 'CosineDecay'; did you mean 'cosine'?" "$(schedule keras '"CosineDecay"')"
run 2 'decay_rate|the polynomial schedule|step and exponential do' "$(schedule poly '"polynomial", "decay_steps": 9, "decay_rate": 0.5')"
run 2 'boundaries[1]|3 is not above' "$(schedule falls '"piecewise", "boundaries": [5, 3], "values": [1, 2, 3]')"
run 2 'values|2 entries for 2 boundaries|give 3' "$(schedule short '"piecewise", "boundaries": [3, 5], "values": [1, 2]')"
run 2 'warmup_learning_rate|no warm-up|warmup_steps' "$(schedule cold '"constant", "warmup_learning_rate": 0.1')"
run 2 'warmup_step|did you mean|warmup_steps' "$(schedule near '"constant", "warmup_step": 5')"
model() { printf '{"model": [%s],\n "data": {"source": "csv", "url": "none.csv"}}\n' "$1" >"$work/model.json"; echo "$work/model.json"; }
run 2 'model[0].name|layers without a name|dense_1' "$(model '{"layer": "dense", "units": 2, "name": "dense_1"}')"
run 2 'model[0].name|a letter' "$(model '{"layer": "dense", "units": 2, "name": "a/b"}')"
run 2 'end.json' "$(edit '10,$d' end)"
for bad in '// mine|JSON has no comments' '{"seed": 1, # one|JSON has no comments' '{"seed": 1,}|trailing comma before this bracket' \
    '{"seed": True}|True is Python' '{"seed": NaN}|JSON has no NaN' "{'seed': 1}|a key in double quotes"; do
    echo "${bad%%|*}" >"$work/no.json"
    run 2 "${bad#*|}" "$work/no.json"
done
run permanent 'nowhere.json' "$work/nowhere.json"
run permanent '64 qubits' "$(edit 's/"qubits": 8/"qubits": 64/; s/"stages": 1, //; s/"Z4", "Z5", "Z6", "Z7"/"Z63"/' wide)"

# gates: the name is checked before the keys; errors suggest a correction
gate() { # words, gate
    printf '{"model": [{"layer": "quantum", "circuit": {"qubits": 4, "gates": [%s]}}],\n' "$2" >"$work/gate.json"
    echo '"data": {"source": "csv", "url": "none.csv"}}' >>"$work/gate.json"
    run 2 "$1" "$work/gate.json"
}
gate "gates[0].gate|unknown gate 'CNOTT'|did you mean 'CNOT'" '{"gate": "CNOTT", "wires": [0, 1]}'
gate "gates[0]: unknown key 'wires'; did you mean 'qubits'?" '{"gate": "CNOT", "wires": [0, 1]}'
gate "unknown gate 'measure'|readouts" '{"gate": "measure", "qubits": [0]}'
gate "unknown gate 'U4'|'Unitary'" '{"gate": "U4", "qubits": [0, 1]}'
gate "unknown gate 'sdag'|did you mean 'Sdg'" '{"gate": "sdag", "qubits": [0]}'
gate "unknown gate 'CRXX'|write 'RXX' with \"controls\"" '{"gate": "CRXX", "qubits": [0, 1, 2], "angle": 1}'
gate 'CRX takes angle, not "theta"' '{"gate": "CRX", "qubits": [0, 1], "theta": 1}'
gate 'gates[0].lambda is missing' '{"gate": "U3", "qubits": [0], "theta": 1, "phi": 2}'
gate 'CCX acts on 3 qubits, but 2 are given' '{"gate": "Toffoli", "qubits": [0, 1]}'
gate 'pauli_word has 2 letters, but 3 qubits' '{"gate": "PauliRot", "qubits": [0, 1, 2], "pauli_word": "XY", "angle": 1}'
gate 'gates[0].angle: expression "w0*x[0] +", column 10: expected a number, a name or (' '{"gate": "RX", "qubits": [0], "angle": "w0*x[0] +"}'
gate 'column 1: there is no function '"'arcsin'"'; did you mean asin?' '{"gate": "RX", "qubits": [0], "angle": "arcsin(x[1])"}'
gate 'column 2: powers are written pow(a, b)' '{"gate": "U3", "qubits": [0], "theta": 1, "phi": "w^2", "lambda": 0}'
gate 'column 5: the result is not a finite number' '{"gate": "RX", "qubits": [0], "angle": "w + asin(2)"}'
gate "column 1: 'np.pi' would be a trainable weight; write pi" '{"gate": "RX", "qubits": [0], "angle": "np.pi/4"}'
gate 'column 1: x is the inputs; write x[0], or x.NAME' '{"gate": "RX", "qubits": [0], "angle": "x*w"}'
gate 'column 3: the ] of x[ is missing' '{"gate": "RX", "qubits": [0], "angle": "w*x[0"}'
gate 'column 1: x[ ] takes a number; write the index of a repeat in braces: x[{i}]' '{"gate": "RX", "qubits": [0], "angle": "x[i]"}'
gate 'column 2: [ ] takes a number; write the index of a repeat in braces: w[{i}]' '{"gate": "RX", "qubits": [0], "angle": "w[i]"}'
gate 'takes no braces (they are for names and angles); remove them' '{"repeat": 2, "index": "i", "gates": [{"gate": "H", "qubits": ["{i}"]}]}'
gate "column 1: 'nan' would be a trainable weight; an angle is a finite number" '{"gate": "RX", "qubits": [0], "angle": "nan"}'
gate 'column 3: powers are written pow(a, b)' '{"gate": "RX", "qubits": [0], "angle": "(w^2)"}'
gate 'state must have 2 digits' '{"gate": "Basis", "qubits": [0, 1], "state": "12"}'
gate 'matrix is not unitary: rows 0 and 1' '{"gate": "Unitary", "qubits": [0], "matrix": [[1, 0], [1, 0]]}'
gate "unknown gate 'StronglyEntanglingLayers'|ansatz|strongly-entangling" '{"gate": "StronglyEntanglingLayers", "qubits": [0]}'

# repeats and ansätze in a list of gates
gate 'gates[0].gates[0].qubits[1]|"i+1" is 4|(i = 3)' '{"repeat": "n", "index": "i", "gates": [{"gate": "CX", "qubits": ["i", "i+1"]}]}'
gate "unknown name 'j'|'n' and 'i'" '{"repeat": 2, "index": "i", "gates": [{"gate": "H", "qubits": ["j"]}]}'
gate 'gates[0] has both "gate" and "repeat"|"gates"' '{"gate": "H", "qubits": [0], "repeat": 3}'
gate '"gates" but no "repeat"' '{"gates": [{"gate": "H", "qubits": [0]}]}'
gate 'exceeds 1048576 gates' '{"repeat": 1048576, "gates": [{"gate": "H", "qubits": [0]}, {"gate": "H", "qubits": [1]}]}'
gate "unknown ansatz 'RealAmplitudes'|hardware-efficient" '{"ansatz": "RealAmplitudes"}'
gate "did you mean 'strongly-entangling'" '{"ansatz": "strongly-entanglin"}'
gate "unknown key 'reps'|'layers'" '{"ansatz": "hardware-efficient", "reps": 2}'
gate 'gates[0].cost|a cost has only Z' '{"ansatz": "qaoa", "cost": "X0 Z1"}'
gate 'gates[0].inputs: 10 amplitudes; 4 qubits have 16; "pad_with": 0 fills' '{"ansatz": "amplitude", "inputs": 10}'
gate 'gates[0].pad_with: give "inputs"' '{"ansatz": "amplitude", "pad_with": 0}'
gate 'gates[0].normalize: inputs are always divided by their norm' '{"ansatz": "amplitude", "normalize": false}'
gate 'has both "state" and "data"' '{"ansatz": "amplitude", "qubits": [0], "state": [1, 0], "data": 3}'
gate "unknown gate 'AmplitudeEmbedding'|\"ansatz\": \"amplitude\"" '{"gate": "AmplitudeEmbedding", "qubits": [0]}'
gate 'column 8: atan2 takes two numbers: atan2(a, b)' '{"gate": "RX", "qubits": [0], "angle": "atan2(w)"}'
gate 'add up to 2, not to 1|normalize' '{"ansatz": "amplitude", "qubits": [0], "state": [1, 1]}'

# sweeps: the object is checked by every command; the trials before any is trained
sweep() { # words, the object, flags of qring sweep
    words=$1; edit 's|"seed": 1|"seed": 1, "sweep": '"$2"'|' sweep >/dev/null; shift 2
    wrong 2 "$words" "$qring" sweep "$work/sweep.json" --out "$out" "$@"
}
wrong 2 'the built-in job has no "sweep"; give the keys that trials differ in' "$qring" sweep --out "$out"
run 2 "sweep: unknown key 'key'; did you mean 'keys'?" "$(edit 's|"seed": 1|"seed": 1, "sweep": {"key": {"seed": [1]}}|' sweep-run)"
sweep 'sweep must be an object, not' '[1]'
sweep 'sweep.keys is missing' '{}'
sweep 'sweep.keys has 0 keys; give 1 to 32' '{"keys": {}}'
sweep 'sweep.keys.seed must be an array, not' '{"keys": {"seed": 3}}'
sweep 'sweep.keys.seed has no values' '{"keys": {"seed": []}}'
sweep "sweep.keys.seed: unknown key 'unifrom'; did you mean 'uniform'" '{"trials": 2, "keys": {"seed": {"unifrom": [1, 2]}}}'
sweep 'sweep.keys.seed: give one of choice, uniform' '{"trials": 2, "keys": {"seed": {"uniform": [1, 2], "integer": [1, 2]}}}'
sweep 'sweep.keys.seed is drawn at random; set the number of draws with sweep.trials' '{"keys": {"seed": {"integer": [1, 9]}}}'
sweep 'sweep.keys.seed.integer: give the lowest value first' '{"trials": 2, "keys": {"seed": {"integer": [9, 1]}}}'
sweep 'sweep.keys.seed.integer has 1 values; give the lowest and highest' '{"trials": 2, "keys": {"seed": {"integer": [9]}}}'
sweep 'sweep.keys.seed.integer[1] is 2.5; it must be an integer' '{"trials": 2, "keys": {"seed": {"integer": [1, 2.5]}}}'
sweep 'sweep.keys.seed.log_uniform[0] is 0; it must be' '{"trials": 2, "keys": {"seed": {"log_uniform": [0, 1]}}}'
sweep 'sweep.trials is 5000; it must be between 1 and 4096' '{"trials": 5000, "keys": {"seed": {"integer": [1, 9]}}}'
sweep 'sweep.keys: the grid has more than 4096 trials' "{\"keys\": {\"seed\": [$(seq -s, 1 70)], \"train.epochs\": [$(seq -s, 1 70)]}}"
sweep "sweep.keys: 'se ed' is not a path" '{"keys": {"se ed": [1]}}'
sweep 'sweep.keys.name: trials cannot differ in name' '{"keys": {"name": ["a", "b"]}}'
sweep 'sweep.keys.worker.out: trials cannot differ in worker' '{"keys": {"worker.out": ["a", "b"]}}'
sweep 'sweep.keys.train.epochs: sweep.halving sets the epochs' '{"keys": {"train.epochs": [1, 2]}, "halving": {"epochs": [1, 2]}}'
sweep 'sweep.halving.epochs has 1 values' '{"keys": {"seed": [1, 2]}, "halving": {"epochs": [1]}}'
sweep 'sweep.halving.epochs[1] is 2; it must be at least 3' '{"keys": {"seed": [1, 2]}, "halving": {"epochs": [2, 2]}}'
sweep 'sweep.halving.factor is 1; it must be between 2' '{"keys": {"seed": [1, 2]}, "halving": {"epochs": [1, 2], "factor": 1}}'
sweep "sweep.mode is 'best'; it must be" '{"keys": {"seed": [1, 2]}, "mode": "best"}'
sweep "sweep.metric: 'val_recall' is not a value of a trial" '{"keys": {"seed": [1, 2]}, "metric": "val_recall"}'
sweep "sweep.metric: 'val_loss' is computed only when training evaluates" '{"keys": {"train.evaluate": [false]}, "metric": "val_loss"}'
sweep "sweep.metric: 'val_loss' needs validation samples" '{"keys": {"data.train_fraction": [1]}, "metric": "val_loss"}'
sweep 'sweep: trial 0 with train.epoch=2|unknown key '"'epoch'" '{"keys": {"seed": [1], "train.epoch": [2, 3]}}'
sweep 'sweep: trial 1 with train.optimizer.learning_rate="fast": train.optimizer.learning_rate' '{"keys": {"train.optimizer.learning_rate": [0.1, "fast"]}}'
sweep 'sweep: trial 0 with model[7].units=8: model has' '{"keys": {"model[7].units": [8]}}'
good='{"keys": {"seed": [1, 2]}}'
sweep '--set sweep.trials=0: sweep.trials is 0' "$good" --set sweep.trials=0
sweep "-n is '0'; it must be an integer from 1 to 64" "$good" -n 0
sweep "--lease: '1ms' is not a duration in 1s ... 24h" "$good" --lease 1ms
sweep '--weights is not supported by qring sweep' "$good" --weights w.h5
sweep '--epochs 0: train.epochs is 0' "$good" --epochs 0
sweep '--epochs has no effect on the trials: sweep.halving.epochs' '{"keys": {"seed": [1, 2]}, "halving": {"epochs": [1, 2]}}' --epochs 3
sweep '--epochs has no effect on the trials: sweep.keys.train.epochs' '{"keys": {"train.epochs": [1, 2]}}' --epochs=3
sweep '--logdir: event files are in OUT' "$good" --logdir here
sweep 'unknown flag --leas; did you mean --lease?' "$good" --leas 3s
sweep 'gs:/bucket/x|two slashes' "$good" --to gs:/bucket/x
: >"$work/no-folder"
wrong permanent "$work/no-folder" "$qring" sweep "$work/sweep.json" --out "$work/no-folder/out"
check "a sweep" run_to "$work/swept.log" "$qring" sweep "$work/sweep.json" --out "$work/swept" --epochs 1 --logdir ''
check "--epochs applies to the trials" sh -c "grep -q '\"epochs\": 1,' '$work/swept/trials/0000/result.json'"
wrong 2 "$work/swept has another sweep: train.epochs: 1 in $work/swept, 2 here|--fresh" "$qring" sweep "$work/sweep.json" --out "$work/swept" --set train.epochs=2
echo '{"trial":0}' >"$work/swept/sweep/rows/0-0000.json"
wrong 4 'rows/0-0000.json is not the row of that trial; remove it' "$qring" sweep "$work/sweep.json" --out "$work/swept" --set train.epochs=1

# chains of layers
{ echo a,b,y; for i in 1 2 3 4; do echo "0.$i,0.2,1"; done; } >"$work/two.csv"
chain() { # words, layers, more of train, more of the job
    printf '{"model": [%s], "data": {"source": "csv", "url": "two.csv"}, "train": {"loss": "mse"%s}%s}' "$2" "$3" "$4" >"$work/chain.json"
    run 2 "$1" "$work/chain.json"
}
angle() { printf '{"gate": "RY", "qubits": [0], "angle": "%s"}' "$1"; }
circuit() { printf '{"layer": "quantum", "circuit": {"qubits": 2, "gates": [%s]}, "readouts": ["Z0", "Z1"]}' "$1"; }
two=$(circuit "$(angle 'w*x[0] + x[1]')")
chain 'model: 0 layers; give 1 to 64, such as {"layer": "dense"' ''
chain 'model[0] must be an object, not the string "dense"' '"dense"'
chain "model[0].layer is missing; it must be 'quantum'" '{"layers": "dense", "units": 1}'
chain "model[0]: unknown key 'type'; did you mean 'layer'?" '{"type": "dense", "units": 1}'
chain 'model[0].activation: softmax of one value is always 1; use' '{"layer": "dense", "units": 1, "activation": "softmax"}'
chain "model[0].layer is 'conv'; it must be" '{"layer": "conv", "units": 1}'
chain 'model[0].units is 0; it must be between 1 and' '{"layer": "dense", "units": 0}'
chain 'model[0].units is missing; it must be an integer' '{"layer": "dense"}'
chain "model[0].activation is 'softmaks'; it must be|did you mean 'softmax'" '{"layer": "dense", "units": 1, "activation": "softmaks"}'
chain "model[1].activation is 'gelu'; it must be" '{"layer": "dense", "units": 1}, {"layer": "activation", "activation": "gelu"}'
chain 'model[1].activation is missing' '{"layer": "dense", "units": 1}, {"layer": "activation"}'
chain 'model[0].rate must be below 1: with 1 every value is dropped' '{"layer": "dropout", "rate": 1}, {"layer": "dense", "units": 1}'
chain 'model[0].rate is -0.1; it must be between 0 and 1' '{"layer": "dropout", "rate": -0.1}, {"layer": "dense", "units": 1}'
chain 'model[0].rate is missing; it must be a number' '{"layer": "dropout"}, {"layer": "dense", "units": 1}'
chain 'model[0] has neither factor nor offset: give one of them' '{"layer": "scale"}, {"layer": "dense", "units": 1}'
chain 'model: no layer has weights; add a dense or a quantum layer' '{"layer": "activation", "activation": "tanh"}'
chain 'model: every layer has "trainable": false, so nothing would train; make one of them trainable' "$(echo "$two" | sed 's/^{/{"trainable": false, /'), {\"layer\": \"dense\", \"units\": 1, \"trainable\": false}"
chain "model[0]: unknown key 'trainable'; known are" '{"layer": "dropout", "rate": 0.5, "trainable": false}, {"layer": "dense", "units": 1}'
chain "model[1].name: 'a' is also a name of model[0]" '{"layer": "dense", "units": 1, "name": "a"}, {"layer": "dense", "units": 1, "name": "a"}'
chain 'model[1].circuit takes 1 input, but model[0] gives 2; make the numbers equal, or insert a dense layer with 1 unit between' "$two, $(circuit "$(angle 'w*x[0]')")"
chain 'model[1].circuit takes 4 inputs, but model[0] gives 2; make the numbers equal, or insert a dense layer with 4 units between' \
    "$two, {\"layer\": \"quantum\", \"circuit\": {\"ansatz\": \"qcnn\", \"qubits\": 4}}"
chain 'model[1].circuit takes no inputs, so the layers before it cannot affect the outputs; use x[0]' "$two, $(circuit "$(angle w)")"
chain 'model[1].circuit refers to x.a, but its inputs are the outputs of the previous layer, which have no names; write x[0]' "$two, $(circuit "$(angle 'w*x.a')")"
chain "model[0]: filters is set in the layer and in its circuit; give it once" '{"layer": "quantum", "filters": 2, "circuit": {"ansatz": "qcnn", "qubits": 4, "filters": 2}}'
chain "the job: unknown key 'layers'" '{"layer": "dense", "units": 1}' '' ', "layers": []'
chain "the job: unknown key 'circuit'" '{"layer": "dense", "units": 1}' '' ', "circuit": {"ansatz": "qcnn", "qubits": 4}'
chain '$schema must be a string, not true' '{"layer": "dense", "units": 1}' '' ', "$schema": true'
chain 'train.initial_weights.layers: 0 layers; give 1 to' '{"layer": "dense", "units": 1}' ', "initial_weights": {"url": "w.h5", "layers": []}'
chain "train.initial_weights.layers[1]: 'dense' is a duplicate; remove it" '{"layer": "dense", "units": 1}' ', "initial_weights": {"url": "w.h5", "layers": ["dense", "dense"]}'
chain 'train.initial_weights.url is missing; it must be a string' '{"layer": "dense", "units": 1}' ', "initial_weights": {"layers": ["dense"]}'
cp tests/golden/tfq/qcnn_weights.h5 "$work/qcnn.h5" # layers pqc, dense, dense_1
initial() { # words, the model's layers, layers to take
    chain "$1" "$2" ", \"initial_weights\": {\"url\": \"$work/qcnn.h5\", \"layers\": $3}"
}
initial "train.initial_weights: layers: the model has no layer 'dens' with weights; it has dense, dense_1" '{"layer": "dense", "units": 8}, {"layer": "dense", "units": 1}' '["dens"]'
initial "train.initial_weights: layers: the model has no layer 'dropout' with weights; it has dense" '{"layer": "dropout", "rate": 0.5}, {"layer": "dense", "units": 1}' '["dropout"]'
initial "the file has no 'head/kernel'; its layers are pqc, dense, dense_1" '{"layer": "dense", "units": 1}' '{"dense": "head"}'
sed 's|"model": .*, "data"|"model": ['"$(circuit "$(angle 'w*x[2]')")"'], "data"|' "$work/chain.json" >"$work/wide-chain.json"
run 4 'two.csv: x has 2 columns, but the model takes 3; correct one of them' "$work/wide-chain.json"

# outputs outside the range that the loss requires
classes=tests/golden/digests/jobs/categorical-crossentropy.json
sed 's/"activation": "softmax"/"activation": "linear"/' "$classes" >"$work/linear.json"
for command in run validate; do
    wrong 2 'model[1]: its outputs (activation linear) may be below 0, but train.loss categorical_crossentropy expects probabilities; set "activation": "softmax" there, or "from_logits": true in the loss' \
        "$qring" $command "$work/linear.json" --out "$out"
done
run 2 'model[0].readouts[0]: Z4 lies in -1 to 1, but train.loss binary_crossentropy expects a probability; use a read-out such as "0.5 + 0.5*Z0"' \
    "$(edit 's/"mse"/"binary_crossentropy"/; s/"accuracy"/"binary_accuracy"/; /"dense"/d; s/"Z7"\]},/"Z7"]}/' bare)"

# options of losses, weights and metrics
loss() { sed "s/\"loss\": \"categorical_crossentropy\"/\"loss\": $1/" "$classes" >"$work/loss.json"; echo "$work/loss.json"; }
run 2 'train.loss: from_logits is set, but model[1] outputs probabilities (activation softmax); remove one of the two' \
    "$(loss '{"name": "categorical_crossentropy", "from_logits": true}')"
run 2 "train.loss: unknown key 'delta'" "$(loss '{"name": "mse", "delta": 1}')"
run 2 'train.loss.delta must be above 0' "$(loss '{"name": "huber", "delta": 0}')"
run 2 'train.loss.label_smoothing' "$(loss '{"name": "categorical_crossentropy", "label_smoothing": 2}')"
run 2 'train.class_weight: 2 numbers for 3 classes; give one for each, from class 0 on' "$(loss '"categorical_crossentropy", "class_weight": [1, 2]')"
run 2 'train.class_weight must be an array, not an object; give a number for each class from class 0 on, such as [1, 3]' "$(loss '"categorical_crossentropy", "class_weight": {"0": 1, "1": 3}')"
run 2 'train.class_weight: huber has no classes; use sample weights (data.sample_weight)' "$(loss '"huber", "class_weight": [1, 2]')"
run 2 'train.class_weight: all weights are 0, so nothing would train' "$(loss '"categorical_crossentropy", "class_weight": [0, 0, 0]')"
metric() { tr -d '\n' <"$classes" | sed "s/\"metrics\": \[[^]]*\]/\"metrics\": [$1]/" >"$work/metric.json"; echo "$work/metric.json"; }
run 2 'train.metrics[0]: top_k_accuracy with k 5 of 3 outputs is always 1; give a smaller "k"' "$(metric '"top_k_accuracy"')"
run 2 "train.metrics[0]: unknown key 'k'" "$(metric '{"name": "recall", "k": 2}')"
run 4 'but precision, recall and auc need 0 or 1' "$(edit 's/"accuracy"/"precision"/' counts)"
run 2 'train.metrics[0]: auc has thresholds from 0 to 1, but the outputs lie in -inf to inf' "$(edit 's/"accuracy"/"auc"/' auc)"

# objectives without labels, and Hamiltonians
# objective NAME READOUT DATA TRAIN
objective() {
    printf '{"model": [{"layer": "quantum", "circuit": {"qubits": 2, "gates": [{"gate": "RX", "qubits": [0], "angle": %s}]}, "readouts": [%s]}], "data": %s, "train": %s}' \
        "${5-"{\"parameter\": \"a\"}"}" "$2" "$3" "$4" >"$work/$1.json"; echo "$work/$1.json"
}
none='{"source": "none"}' energy='{"loss": "expectation"}'
run 2 'train.loss: mse compares outputs with labels, but without data there are none; "expectation" minimizes' "$(objective labels '"Z0"' "$none" '{}')"
run 2 'data.source: none, but the circuit takes 1 input; remove the data gates' "$(objective inputs '"Z0"' "$none" "$energy" '{"data": 0}')"
run 2 "data: unknown key 'train_fraction'" "$(objective split '"Z0"' '{"source": "none", "train_fraction": 0.5}' "$energy")"
run 2 'train.batch_size is 8, but without data a step has one sample; remove the key' "$(objective batch '"Z0"' "$none" '{"loss": "expectation", "batch_size": 8}')"
run 2 'train.early_stopping watches val_loss, but without data there is no validation|"monitor": "loss"' "$(objective stop '"Z0"' "$none" '{"loss": "expectation", "early_stopping": {}}')"
run 2 'train.metrics[0]: mae compares outputs with labels, but train.loss expectation has none' "$(objective mae '"Z0"' "$none" '{"loss": "expectation", "metrics": ["mae"]}')"
still() { objective "$1" '"Z0"' "$none" "{\"loss\": \"expectation\", \"optimizer\": {$2}}"; } # name, keys
run 2 'train.optimizer.learning_rate: lbfgs chooses the length of its steps|remove it' "$(still rate '"name": "lbfgs", "learning_rate": 0.1')"
run 2 'train.optimizer.clipnorm: lbfgs|remove it' "$(still clip '"name": "lbfgs", "clipnorm": 1')"
run 2 'train.optimizer.memory is 0|between 1 and 20' "$(still memory '"name": "lbfgs", "memory": 0')"
run 2 "unknown key 'momentum'|memory" "$(still momentum '"name": "lbfgs", "momentum": 0.9')"
run 2 'train.optimizer: lbfgs needs the same loss in all steps' "$(optimizer batches '"name": "lbfgs"')"
run 2 'train.optimizer.regularization is -1' "$(still metric '"name": "quantum-natural-gradient", "regularization": -1')"
run 2 "unknown key 'lam'|regularization" "$(still lam '"name": "quantum-natural-gradient", "lam": 0.1')"
run 2 'train.optimizer: quantum-natural-gradient is for one quantum layer without data' "$(optimizer natural '"name": "quantum-natural-gradient"')"
run 2 'train.loss.weights: 1 number for 2 outputs; give one for each' "$(objective few '"Z0", "Z1"' "$none" '{"loss": {"name": "expectation", "weights": [1]}}')"
run 2 'train.loss.weights: all weights are 0' "$(objective nothing '"Z0"' "$none" '{"loss": {"name": "expectation", "weights": [0]}}')"
run 2 'train.class_weight: expectation has no classes' "$(objective class '"Z0"' "$none" '{"loss": "expectation", "class_weight": [1, 2]}')"
watch() { f=$(objective "w$row" '"Z0"' "$none" "$energy"); sed -i "s/\"readouts\"/\"watch\": $1, \"readouts\"/" "$f"; echo "$f"; }
run 2 'model[0].watch must be an object, not the string "Z0"' "$(watch '"Z0"')"
run 2 "model[0].watch: 'mae' is the name of another value; choose another name" "$(watch '{"mae": "Z0"}')"
run 2 "model[0].watch: 'my energy' is not a valid metric name; use 1 to 24 letters" "$(watch '{"my energy": "Z0"}')"
run 2 'model[0].watch.energy: observable "Z2", column 1: qubit 2 is out of range' "$(watch '{"energy": "Z2"}')"
run 2 'model[0].watch: 9 observables are watched; give at most 8' "$(watch '{"a":"Z0","b":"Z0","c":"Z0","d":"Z0","e":"Z0","f":"Z0","g":"Z0","h":"Z0","i":"Z0"}')"
hamiltonian() { objective "h$row" "{\"hamiltonian\": $1}" "$none" "$energy"; }
run 2 'column 3: write the Paulis of a term side by side, without @: Z0 Z1' "$(objective at '"Z0@Z1"' "$none" "$energy")"
run 2 'column 4: coefficients must be real; this one is imaginary' "$(objective imaginary '"0.5j*Z0"' "$none" "$energy")"
run 2 'model[0].readouts[0].hamiltonian[1], column 1: qubit 2 is out of range' "$(hamiltonian '[["Z0", 1], ["X2", 1]]')"
run 2 'model[0].readouts[0].hamiltonian is a number; it must be terms, as in' "$(hamiltonian 3)"
run permanent "model[0].readouts[0].hamiltonian: there is no file|$work/nowhere.txt; correct the path" "$(hamiltonian '"nowhere.txt"')"
printf '# two terms\n0.5 Z0 Z1\n(0.5+0.5j) [X0]\n' >"$work/bad.txt"
run 2 'model[0].readouts[0].hamiltonian: bad.txt, line 3, column 10: the coefficient has imaginary part 0.5' "$(hamiltonian '"bad.txt"')"
head -c 300 /dev/urandom >"$work/noise.txt"
run 2 'noise.txt' "$(hamiltonian '"noise.txt"')"
circuit_file() { f=$(objective "c$row" '"Z0"' "$none" "$energy"); sed -i "s/\"circuit\": .*, \"readouts\"/\"circuit\": $1, \"readouts\"/" "$f"; echo "$f"; }
printf 'qubit q;\nU(a, 0, 0) q;\n' >"$work/bad.qasm"
run 2 'model[0].circuit.url: bad.qasm: line 2, column 3: ' "$(circuit_file '{"url": "bad.qasm"}')"
run permanent "model[0].circuit.url: there is no file|$work/nowhere.qasm; correct the path" "$(circuit_file '{"url": "nowhere.qasm"}')"
run 2 'model[0].circuit.url is empty; give a path or URL' "$(circuit_file '{"url": ""}')"
run 2 "model[0].circuit: unknown key 'qubits'" "$(circuit_file '{"url": "bad.qasm", "qubits": 1}')"
run 2 'model[0].circuit.inputs[0] must be a string' "$(circuit_file '{"url": "bad.qasm", "inputs": [1]}')"
printf 'input float a;\nqubit q;\nU(a, 0, 0) q;\n' >"$work/good.qasm"
run 2 "model[0].circuit.url: good.qasm: the text has no free symbol 'b' for an input; it has a" "$(circuit_file '{"url": "good.qasm", "inputs": ["b"]}')"
weighted=tests/golden/digests/jobs/weighted-classes.json
weights() { sed "s|\"url\": \"[^\"]*\"|\"url\": \"$work/$1.csv\"|" "$weighted" >"$work/weights.json"; echo "$work/weights.json"; }
{ echo a,b,c,d,y; echo 1,2,3,4,0; echo 1,2,3,4,1; } >"$work/no-w.csv"
{ echo a,b,c,d,w,y; echo 1,2,3,4,1,0; echo 1,2,3,4,-2,1; } >"$work/minus.csv"
{ echo a,b,c,d,w,y; echo 1,2,3,4,0,0; echo 1,2,3,4,0,1; } >"$work/nothing.csv"
run 4 "no-w.csv: the header has no column 'w', which data.sample_weight names" "$(weights no-w)"
run 4 "minus.csv: row 2: the weight in 'w' is -2; a weight is 0 or more, and below 2^40" "$(weights minus)"
run 4 "data.sample_weight: the weights in 'w' are 0 for all 1 training samples" "$(weights nothing)"
run 2 "data.sample_weight: 'y' is not a valid column of weights" "$(sed 's/"sample_weight": "w"/"sample_weight": "y"/' "$weighted" >"$work/labels.json"; echo "$work/labels.json")"
run 2 'model[0].l2' "$(sed 's/"l2": 0.01/"l2": -0.01/' "$weighted" >"$work/minus-l2.json"; echo "$work/minus-l2.json")"

# Allowed but probably unintended: one warning, and the job trains.
# expect_warning NAME WORDS: $work/NAME.json trains; run and validate each print one warning with
# these words
expect_warning() {
    run_to "$work/$1.log" "$qring" run "$work/$1.json" -n 1 --epochs 1 --out "$work/$1"
    check "$1: it trains" test -s "$work/$1/weights.h5"
    check "$1: one warning: $(tail -n 3 "$work/$1.log")" test "$(grep -cF -- "$2" "$work/$1.log")" = 1
    check "$1: qring validate warns too" test "$("$qring" validate "$work/$1.json" --out "$work/$1.v" 2>&1 | grep -cF -- "$2")" = 1
}
{ echo a,b,c,y; for i in 1 2 3 4 5 6; do echo 0.$i,0.2,0.3,-1; done; for i in 1 2 3 4; do echo 0.$i,0.2,0.3,1; done; } >"$work/sorted.csv"
turn() { printf '{"gate": "RX", "qubits": [%s], "angle": {"data": %s}}, {"gate": "RY", "qubits": [%s], "angle": {"parameter": "w%s"}}' "$1" "$2" "$1" "$1"; }
own() { # name, model, more of data, loss
    printf '{"name": "%s", "model": [%s], "data": {"source": "csv", "url": "sorted.csv", "train_fraction": 0.5%s}, "train": {"loss": "%s"}}' "$@" >"$work/$1.json"
}
one='{"layer": "dense", "units": 1}'
own sided "$one" '' hinge
expect_warning sided 'data: all 5 training samples have the label -1, so there is only one answer to learn, and 4 validation samples have another; if the file is sorted, set "shuffle_split" in data to a seed'
check "the names of the inputs are logged" holds "$work/sided.log" 'inputs: a, b, c'
check "validate prints them too" sh -c "'$qring' validate '$work/sided.json' --out '$work/sided.v' 2>/dev/null | grep -q '^inputs *a, b, c$'"
own mixed "$one" ', "shuffle_split": 1' hinge
run_to "$work/mixed.log" "$qring" run "$work/mixed.json" -n 2 --epochs 1 --out "$work/mixed"
check "a split by a seed trains, with data beside the job file" test -s "$work/mixed/weights.h5"
check "the split by a seed gives no warning" sh -c "! grep -q 'one answer' '$work/mixed.log'"
own columns "{\"layer\": \"quantum\", \"circuit\": {\"qubits\": 2, \"gates\": [$(turn 0 0), $(turn 1 2)]}, \"readouts\": [\"Z0\"]}" ', "shuffle_split": 1' mse
run 2 'data: the circuit does not use column b; if that is intended, list the columns that it uses in data "columns": ["a", "c"], which are then x[0], x[1]' "$work/columns.json"
wrong 2 'data: the circuit does not use column b' "$qring" validate "$work/columns.json"
named() { own "$1" "{\"layer\": \"quantum\", \"circuit\": {\"qubits\": 1, \"gates\": [{\"gate\": \"RY\", \"qubits\": [0], \"angle\": \"$2\"}]}}" "$3, \"shuffle_split\": 1" mse; } # name, angle, more of data
named by-name 'w*x.a + asin(x.c)' ', "columns": ["c", "a"]'
run_to "$work/by-name.log" "$qring" run "$work/by-name.json" -n 2 --epochs 2 --out "$work/by-name"
check "columns selected by name train: $(tail -n 3 "$work/by-name.log")" test -s "$work/by-name/weights.h5"
check "the selected columns are logged" holds "$work/by-name.log" 'inputs: c, a'
named unpicked 'w*x.a + x.c' ''
run 4 'sorted.csv: the circuit does not use column b; if that is intended' "$work/unpicked.json"
named misspelt 'w*x.a + x.d' ', "columns": ["a", "c"]'
run 2 'data.columns: the circuit refers to x.d, but no column has this name; correct the name' "$work/misspelt.json"
named nowhere-column 'w*x.a' ', "columns": ["a", "q"]'
run 4 "sorted.csv: there is no input column 'q'|there are: a, b, c" "$work/nowhere-column.json"
named both-ways 'x.a + x[0]' ''
run 2 'calls some columns by name (x.a) and others by number (x[0])' "$work/both-ways.json"
named outside 'w + asin(10*x.a)' ', "columns": ["a"]'
run_to "$work/outside.log" "$qring" run "$work/outside.json" -n 1 --out "$work/outside"
check "an angle that is not finite is an error of the sample: $(tail -n 3 "$work/outside.log")" holds "$work/outside.log" 'gives a loss or gradient that is not finite'
own readouts "{\"layer\": \"quantum\", \"circuit\": {\"qubits\": 2, \"columns\": 3, \"gates\": [$(turn 0 0), $(turn 1 2), $(turn 0 1)]}}" ', "shuffle_split": 1' mse
expect_warning readouts 'data: a sample has one label, which is used for all 2 outputs: without readouts the layer reads Z of 2 qubits; give one in "readouts", or add a dense layer with 1 unit'
own no-inputs "$(circuit "$(angle w)"), $one" ', "shuffle_split": 1' mse
expect_warning no-inputs 'data: the circuit reads none of 3 columns (a, b, c), so all samples have the same output; use x[0] in one of its angles, or "source": "none" in data'
sed 's/"w"/"b"/' "$work/no-inputs.json" >"$work/weight.json"
expect_warning weight '"source": "none" in data; b is a weight of the circuit, write x.b for the column'
sed 's/"Z1"\]/"Z1", "X1"]/; s/"train": {/"train": {"optimizer": {"name": "adam", "learning_rate": 0}, /' "$work/weight.json" >"$work/rate.json"
expect_warning rate 'train.optimizer.learning_rate is 0: the weights never change'
expect_warning rate 'model[0].readouts[1]: no weight or input can change Z1 (constant read-outs: 2 of 3)'
objective unmoved '"Z1"' "$none" "$energy" >/dev/null
expect_warning unmoved 'model: no trainable weight can change the read-outs, so nothing is learned'
own reach '{"layer": "dense", "units": 1, "activation": "sigmoid"}' ', "shuffle_split": 1' mse
expect_warning reach "data: the labels lie in -1 to 1, but the model's outputs in 0 to 1"
own positive '{"layer": "dense", "units": 1, "activation": "sigmoid"}' ', "shuffle_split": 1' hinge
expect_warning positive 'train.loss: hinge uses the sign of the outputs as the class, but they are never below 0'
sed 's/"activation": "softmax"/"activation": "sigmoid"/' tests/golden/digests/jobs/categorical-crossentropy.json >"$work/doubt.json"
run_to "$work/doubt.log" "$qring" run "$work/doubt.json" -n 1 --epochs 1 --out "$work/doubt"
check "a loss for probabilities without a softmax: it trains" test -s "$work/doubt/weights.h5"
check "a loss for probabilities without a softmax: one warning" test "$(grep -c 'activation is not softmax' "$work/doubt.log")" = 1
check "qring validate warns of a loss for probabilities without a softmax" test "$("$qring" validate "$work/doubt.json" 2>&1 | grep -c 'activation is not softmax')" = 1

# Early stopping logs the epoch and the reason.
run_to "$work/stopped.log" "$qring" run tests/golden/digests/jobs/mae-stopping.json -n 1 --out "$work/stopped"
check "the epoch and reason of early stopping" grep -q '^stopped early after epoch [1-5] of 6: val_accuracy has not improved$' "$work/stopped.log"
check "the epoch of the written weights" grep -q '^best epoch [1-5]: val_accuracy [0-9.]*; the weights are that epoch.s$' "$work/stopped.log"
end
