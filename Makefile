# The pure Go build needs no make: go build ./cmd/troupe. With CUDA it needs a C compiler and CUDA's headers, which
# devices/cuda/headers.sh finds or fetches; the driver is loaded when the program runs, if there is one.
CUDA_ENV = CGO_ENABLED=1 CGO_CFLAGS="$$(devices/cuda/headers.sh)"

.PHONY: troupe cuda test-cuda

troupe:
	CGO_ENABLED=0 go build -o troupe ./cmd/troupe

cuda:
	flags=$$(devices/cuda/headers.sh) && CGO_ENABLED=1 CGO_CFLAGS="$$flags" go build -tags cuda -o troupe ./cmd/troupe
