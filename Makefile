# The default build is pure Go and needs no make: go build ./cmd/troupe. With GPUs it needs a C compiler and CUDA's headers, which
# devices/cuda/headers.sh finds or fetches; the driver is loaded when the program runs, if there is one.
TROUPE = troupe
WITH_CUDA = flags=$$(devices/cuda/headers.sh) && CGO_ENABLED=1 CGO_CFLAGS="$$flags" CGO_LDFLAGS=-Wl,--as-needed

.PHONY: troupe cuda test test-cuda

troupe:
	CGO_ENABLED=0 go build -o $(TROUPE) ./cmd/troupe

cuda:
	$(WITH_CUDA) go build -tags cuda -o $(TROUPE) ./cmd/troupe

test:
	go test -timeout 30m ./...
	$(MAKE) test-cuda

# On the machine's cards, or without any on a driver that runs the kernels on the CPU.
test-cuda:
	$(WITH_CUDA) go test -race -tags cuda -timeout 20m ./devices/... ./kernels/...
