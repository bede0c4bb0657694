# The default build is pure Go and needs no make: go build ./cmd/troupe. With GPUs it needs a C compiler and CUDA's headers, which
# devices/cuda/headers.sh finds or fetches; the driver is loaded when the program runs, if there is one.

.PHONY: troupe cuda

troupe:
	CGO_ENABLED=0 go build -o troupe ./cmd/troupe

cuda:
	flags=$$(devices/cuda/headers.sh) && CGO_ENABLED=1 CGO_CFLAGS="$$flags" CGO_LDFLAGS=-Wl,--as-needed go build -tags cuda -o troupe ./cmd/troupe
