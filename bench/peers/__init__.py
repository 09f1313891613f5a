"""Other gateways beside Dragoman and nginx: the same requests, in turns, with every response verified.

peers       the other gateways as a table           tensorzero_server   starts the gateway in TensorZero's package
installing  their packages, pinned, one venv each   rounds              CPU time of each program, in turns
report      bench/results/peers.json and the pages  chart               the plots
run         `make bench-peers`

Load, mock provider and cases are those of `bench.gateway`. Everything stays on 127.0.0.1.
"""
