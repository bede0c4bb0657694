//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/devices/cuda/fake"
	"github.com/troupe-run/troupe/internal/extent"
)

// gpuTime bounds a case on the fake driver, which runs the threads of a kernel one by one.
const gpuTime = 90 * time.Second

// builtCUDA is the troupe binary with the tag cuda, built once from this tree.
var builtCUDA = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "troupe-cuda")
	cmd := exec.Command("make", "-C", "..", "cuda", "TROUPE="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make cuda: %w\n%s", err, out)
	}
	return path, nil
})

// gpuCluster declares a cluster of the binary with GPUs, on a machine with two cards of 1 GiB from the fake driver, which runs the kernels
// on the CPU.
func gpuCluster(t testing.TB, jobs string, flags ...string) *cluster {
	t.Helper()
	if !extent.Check() {
		t.Skip("make check runs it: it builds the fake driver, which takes minutes the first time")
	}
	needPython(t)
	driver := fake.Build(t)
	if _, err := exec.LookPath("make"); err != nil && os.Getenv("CI") == "" {
		t.Skipf("the tag cuda is built by make: %v", err)
	}
	path, err := builtCUDA()
	if err != nil {
		t.Fatal(err)
	}
	c := declare(t, jobs, flags...)
	c.binary = path
	c.env = []string{"TROUPE_LIBCUDA=" + driver, "FAKE_CUDA_DEVICES=2", fmt.Sprint("FAKE_CUDA_MEM=", 1<<30), "CUDA_VISIBLE_DEVICES=0,1"}
	return c
}

// TestGPUs runs the cases of gpu/ on a typical cluster for programs with parameter servers: a ps without GPUs, and four workers that share
// the cards, each with a fifth of their memory.
func TestGPUs(t *testing.T) {
	c := gpuCluster(t, "ps=1,worker=4")
	for _, k := range c.tasks {
		k.flags = []string{"--gpu-memory-fraction", "0.2"}
		if k.job == "ps" {
			k.flags = []string{"--gpus", "0"}
		}
	}
	c.startAll(t)
	files, err := filepath.Glob("gpu/*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		file := strings.TrimSuffix(filepath.Base(path), ".py")
		for _, function := range functionsOf(t, path) {
			t.Run(file+"/"+strings.TrimPrefix(function, "test_"), func(t *testing.T) {
				drivers.borrow(t).must(t, request{Case: path, Function: function, Name: "gpu_" + file + "_" + function, Targets: c.targets()}, gpuTime)
			})
		}
	}
	t.Run("training", func(t *testing.T) {
		trainTwo(t, c)
	})
}

// TestLostGPU makes a kernel fault, which breaks everything on the card. The step fails with an error that says so, and the next session
// trains on the same server.
func TestLostGPU(t *testing.T) {
	c := gpuCluster(t, "worker=1", "--gpu-memory-fraction", "0.3")
	c.env = append(c.env, "FAKE_CUDA_FAIL=fault:40")
	c.startAll(t)
	drivers.borrow(t).must(t, request{Case: "gpu/fault/lost.py", Function: "test_a_fault_costs_the_session_alone", Name: "lost", Targets: c.targets()}, gpuTime)
}

// TestCUDAWithoutDriver starts the binary with GPUs where there is no driver: it serves with CPUs and logs why.
func TestCUDAWithoutDriver(t *testing.T) {
	t.Parallel()
	c := gpuCluster(t, "worker=1")
	c.env = []string{"TROUPE_LIBCUDA=/nowhere/libcuda.so.1"}
	c.startAll(t)
	if log := c.tasks[0].proc.log.tail(); strings.Count(log, "no GPU is used") != 1 || !strings.Contains(log, "/nowhere/libcuda.so.1") {
		t.Errorf("the log does not say once why there are no GPUs:\n%s", log)
	}
}
