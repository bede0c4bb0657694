//go:build cuda

package all_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices/cuda"
	"github.com/troupe-run/troupe/devices/cuda/fake"
	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestMain runs all tests of kernels on a GPU where an op has a row for it. TROUPE_LIBCUDA selects the driver: "system" is the machine's;
// the default is the one for machines without a card. After a run of all tests, every GPU row must have been used.
func TestMain(m *testing.M) {
	flag.Parse()
	switch os.Getenv("TROUPE_LIBCUDA") {
	case "":
		os.Setenv("TROUPE_LIBCUDA", fake.Build(build{}))
	case "system":
		os.Unsetenv("TROUPE_LIBCUDA")
	}
	device, err := AcceleratorOf()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kernelstest.Accelerate = func(_ testing.TB, _ string, resources *containers.Manager) kernels.Accelerator {
		return device.WithResources(resources).(kernels.Accelerator)
	}
	code := m.Run()
	if code == 0 && everyTest() {
		if missing := idleRows(); len(missing) > 0 {
			fmt.Fprintf(os.Stderr, "no test runs these GPU rows:\n\t%s\n", strings.Join(missing, "\n\t"))
			code = 1
		}
	}
	if err := device.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if used := device.Stats().InUse; code == 0 && used != 0 {
		fmt.Fprintf(os.Stderr, "%d bytes of the GPU's memory were not released\n", used)
		code = 1
	}
	os.Exit(code)
}

func AcceleratorOf() (*gpu.Device, error) {
	cards, err := cuda.Driver{}.Cards()
	if err != nil {
		return nil, err
	}
	return gpu.Open(gpu.Options{Card: cards[0], Name: kernelstest.DeviceName, Job: "test", Host: tensor.NewPool("test", 0), AllowGrowth: true})
}

// everyTest reports whether no flag excludes tests.
func everyTest() bool {
	return !slices.ContainsFunc([]string{"run", "skip", "short", "list"}, func(name string) bool {
		f := flag.Lookup("test." + name)
		return f.Value.String() != f.DefValue
	})
}

// idleRows describes the rows for GPUs that no test ran.
func idleRows() []string {
	kernelstest.Accelerated.Lock()
	defer kernelstest.Accelerated.Unlock()
	var missing []string
	for _, op := range kernels.Ops() {
		for i, row := range kernels.Rows(op, "GPU") {
			if kernelstest.Accelerated.Rows[row] == 0 {
				missing = append(missing, fmt.Sprintf("%s (row %d, %v)", op, i, row.Types))
			}
		}
	}
	return missing
}

// build ends the process if the driver cannot be built.
type build struct{}

func (build) Helper() {}

func (build) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func (build) Skipf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(0)
}
