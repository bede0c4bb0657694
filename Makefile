# The default build is pure Go and needs no make: go build ./cmd/troupe. With GPUs it needs a C compiler and CUDA's headers, which
# scripts in devices/cuda find or fetch; the driver is loaded when the program runs, if there is one.
TROUPE = troupe
WITH_CUDA = flags=$$(devices/cuda/headers.sh) && compiler=$$(devices/cuda/compiler.sh) && CGO_ENABLED=1 CC="$$compiler" CGO_CFLAGS="$$flags" CGO_LDFLAGS=-Wl,--as-needed

# What is compiled does not depend on the folder of the clone, so that the next clone finds it in Go's cache.
export GOFLAGS := -trimpath $(GOFLAGS)

.PHONY: troupe cuda test faults check lint test-plain test-race test-cuda test-rules test-levels test-emulated test-arm64 test-platforms wheel wheels site compare kernel-report gpu-report release release-dry-run release-wheels release-check test-release platforms

troupe:
	CGO_ENABLED=0 go build -o $(TROUPE) ./cmd/troupe

cuda:
	$(WITH_CUDA) go build -tags cuda -o $(TROUPE) ./cmd/troupe

# .ci/retry runs tests that fail a second time.
GO_TEST = go test

# All packages, the end-to-end programs and the documents, in about ten minutes on two processors. go test prints packages in this order,
# each when it and those before it are done; what takes long comes last.
test:
	@echo "This takes about ten minutes on two processors that do nothing else. Each package is shown when it is done, the end-to-end programs last."
	CGO_ENABLED=0 $(GO_TEST) -p=3 -parallel=4 -timeout=20m ./graph/... ./internal/... ./node/... ./queues/... ./containers/... ./examples/... ./kernels/... ./devices/... \
		./actors/... ./remote/... ./serve/... ./troupetest ./cmd/... . ./e2e/...

# Tasks that are killed, frozen, absent, cut off or far away, with TensorFlow's client: part of make check too. Far tasks need Linux, and the right to make
# network namespaces.
faults:
	TROUPE_TESTS=check CGO_ENABLED=0 go test -v -timeout 20m ./e2e -run '^(TestFaults|TestAbsentTask|TestVanishedClient|TestBrokenConnections|TestAbandonedSessions|TestFarTasks)$$'

# What takes long: .ci/nightly. Tests run at greater length (internal/extent). Each package's tests run once, where
# they tell most, and those of GATED twice. A part that fails does not keep the others from running; a table of them comes last.
check test-plain test-race test-cuda test-rules test-levels test-release: export TROUPE_TESTS ?= check

check:
	@MAKE="$(MAKE)" .ci/check lint test-release test-platforms test-rules test-levels test-emulated test-arm64 test-plain test-race test-cuda

# The version is in .ci/tools/go.mod, with its checksums. The first run builds it.
lint:
	CGO_ENABLED=0 go tool -modfile=.ci/tools/go.mod golangci-lint run ./...

# What starts goroutines runs under the race detector, which needs a C compiler.
RACED = . ./actors/... ./cmd/... ./containers/... ./internal/... ./node/... ./queues/... ./remote/... ./serve/... ./troupetest
# These have tests that count allocations, limit memory, compare numbers in bulk or let days pass, and leave them out under the race
# detector.
GATED = . ./cmd/troupe ./internal/conventions ./kernels/all ./kernels/internal/simd ./remote/compress

test-plain:
	CGO_ENABLED=0 go test -parallel 4 -timeout 60m ./e2e/... ./examples/... ./graph/... $(GATED)

test-race:
	CGO_ENABLED=1 go test -race -timeout 30m $(RACED)

# Devices and kernels, under the race detector, on the machine's cards, or without any on a driver that runs the kernels
# on the CPU.
test-cuda:
	$(WITH_CUDA) go test -race -tags cuda -timeout 40m ./devices/... ./kernels/...

# The alerts and the dashboard of deploy/, with Prometheus' own parsers, and the manifests for Kubernetes, Kubeflow and Compose, with theirs,
# in modules of their own (.ci/rules, .ci/deploy), beyond which go test does not see changes.
test-rules:
	cd .ci/tools && CGO_ENABLED=0 go test ./bounded
	cd .ci/rules && CGO_ENABLED=0 go test -count=1 .
	cd .ci/deploy && CGO_ENABLED=0 go test -count=1 .

# The kernels at each level of vector instructions that the processor has. The inner loops' own tests run at all of them in make test too; here,
# what the ops compute is compared with TensorFlow's results at the levels below the best, which GODEBUG chooses in the test's process alone. The
# generator of the assembly has tests of its own.
AT_LEVEL = go test -count=1 -timeout 30m
GOLDEN = ./kernels/all -run '^TestGolden'

test-levels:
	cd kernels/internal/simd/asm && CGO_ENABLED=0 go test ./...
	CGO_ENABLED=0 $(AT_LEVEL) -exec 'env GODEBUG=cpu.amxtile=off' $(GOLDEN)
	CGO_ENABLED=0 $(AT_LEVEL) -exec 'env GODEBUG=cpu.avx512f=off' $(GOLDEN)
	CGO_ENABLED=0 $(AT_LEVEL) -exec 'env GODEBUG=cpu.avx2=off' $(GOLDEN)

# The same at the levels of other processors, where QEMU's user mode emulation is installed: max has AVX2 and no AVX-512, Nehalem has neither.
# QEMU 7.2 loads zeros with the second of two masked loads that have a gather between them, which a processor with AVX2 does not: the interpolation
# of fewer than eight numbers is left out there, and with it the resizing of pictures of few channels.
EMULATOR = $(if $(shell command -v $(1)),$(2),@echo "skipped: $(1) is not installed (Debian: qemu-user-static)"$(if $(CI),; false))

test-emulated:
	$(call EMULATOR,qemu-x86_64-static,CGO_ENABLED=0 TROUPE_GUARD_PAGES=off GOARCH=amd64 $(AT_LEVEL) -exec 'qemu-x86_64-static -cpu max' -skip '^TestInterpolation$$/^avx2$$' ./kernels/internal/simd)
	$(call EMULATOR,qemu-x86_64-static,CGO_ENABLED=0 TROUPE_GUARD_PAGES=off GOARCH=amd64 $(AT_LEVEL) -exec 'qemu-x86_64-static -cpu Nehalem' ./kernels/internal/simd)
	$(call EMULATOR,qemu-x86_64-static,CGO_ENABLED=0 GOARCH=amd64 $(AT_LEVEL) -exec 'qemu-x86_64-static -cpu max' $(GOLDEN) -skip '^TestGolden$$/^ResizeBilinear$$')

test-arm64:
	CGO_ENABLED=0 GOARCH=arm64 go vet ./kernels/internal/simd
	$(call EMULATOR,qemu-aarch64-static,CGO_ENABLED=0 GOARCH=arm64 $(AT_LEVEL) -exec qemu-aarch64-static ./kernels/internal/simd)

# Wheels of the Python package with the program inside, in python/dist: this machine's, and those of all platforms.
wheel:
	python3 python/build.py native

wheels:
	python3 python/build.py all

# What a release consists of is in .goreleaser.yaml: docs/releases.md. The versions of the tools are in .ci/release/go.mod; the first run
# builds them. goreleaser asks for a remote, which a copy of the repository may lack.
GORELEASER = GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/troupe-run/troupe \
	CGO_ENABLED=0 go tool -modfile=.ci/release/go.mod goreleaser

# Builds the tag that is checked out, and uploads it to a draft of a release.
release: release-check
	$(GORELEASER) release --clean

# Builds all that belongs to a release from the work tree into dist, and publishes nothing.
release-dry-run: release-check
	$(GORELEASER) release --snapshot --clean
	cd .ci/release && CGO_ENABLED=0 go test -count=1 .

# Wheels with the programs of the release in dist.
release-wheels:
	python3 python/build.py --dist dist --out dist/wheels all

release-check:
	$(GORELEASER) check

# The same for linux/amd64 alone.
test-release: release-check
	LINUX_AMD64_ONLY=1 $(GORELEASER) release --snapshot --clean
	cd .ci/release && CGO_ENABLED=0 go vet ./... && CGO_ENABLED=0 go test -count=1 .

# Those of the platforms below that take less than a minute, where they can be had: they need root, and what their scripts name.
test-platforms:
	for name in deb rpm windows; do .ci/platforms/$$name || [ $$? = 77 ] || exit 1; done

# Packages, image, unit and batch script where users run them, with what is in dist; what was seen goes into the table of docs/releases.md. PLATFORMS
# names some of the scripts in .ci/platforms. They need root, and say what else they need. It takes about five minutes after make test-release.
platforms:
	.ci/platforms/run $(PLATFORMS)

# Our kernels beside TensorFlow's, with one thread and with two: the table of docs/kernels.md. It takes a quarter of an hour, on a
# machine that does nothing else, and a Python with TensorFlow.
kernel-report: troupe
	$${TROUPE_PYTHON:-python3} e2e/speed/report.py --troupe ./$(TROUPE) --out docs/kernels.md

# The documentation site, in .ci/site/public; it needs a Python with mkdocs-material.
site:
	$${TROUPE_PYTHON:-python3} -m mkdocs build --config-file .ci/site/mkdocs.yml

# TensorFlow's programs on Troupe's servers and on TensorFlow's own: the figures and the plot of docs/comparison.md. It takes five minutes, on
# a machine that does nothing else, and a Python with TensorFlow and matplotlib.
compare: troupe
	$${TROUPE_PYTHON:-python3} e2e/comparison/compare.py --troupe ./$(TROUPE) --out docs/comparison.json --plot docs/images/comparison

# What the machine's NVIDIA card does, in docs/gpu-report.md: the tests on it, and all that is measured. It takes less than 20
# minutes, on a machine that does nothing else. GPU_REPORT are the program's flags; -help lists them.
GPU_REPORT = -out docs/gpu-report.md

gpu-report:
	@$(WITH_CUDA) go run -tags cuda ./e2e/gpu/report $(GPU_REPORT)
