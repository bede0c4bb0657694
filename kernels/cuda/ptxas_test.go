//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// assembler returns the path of NVIDIA's ptxas: the one that PTXAS names, or the one from the CUDA 12.9 wheel, which is downloaded once
// into the user's cache directory.
func assembler() (string, error) {
	if given := os.Getenv("PTXAS"); given != "" {
		return given, nil
	}
	platform, ok := map[string]string{"amd64": "manylinux2014_x86_64", "arm64": "manylinux2014_aarch64"}[runtime.GOARCH]
	if !ok {
		return "", fmt.Errorf("there is no ptxas for %s", runtime.GOARCH)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "troupe", "ptxas-12.9.86")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	ptxas := filepath.Join(dir, "nvidia", "cuda_nvcc", "bin", "ptxas")
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return ptxas, nil
	}
	const fetch = `python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
		--platform "$0" --python-version 3.12 --implementation cp -d . nvidia-cuda-nvcc-cu12==12.9.86 &&
		python3 -m zipfile -e nvidia_cuda_nvcc_cu12-*.whl . && rm nvidia_cuda_nvcc_cu12-*.whl && chmod +x nvidia/cuda_nvcc/bin/ptxas`
	if err := runIn(dir, 5*time.Minute, "sh", "-c", fetch, platform); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return ptxas, os.WriteFile(complete, nil, 0o644)
}

func runIn(dir string, limit time.Duration, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// TestAssembles checks that NVIDIA's assembler accepts all PTX, for the oldest supported cards and for newer ones. It also finds kernels
// with too much static shared memory.
func TestAssembles(t *testing.T) {
	if !extent.Check() {
		t.Skip("make check runs it: it fetches the assembler, and takes a minute")
	}
	ptxas, err := assembler()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs ptxas: %v", err)
		}
		t.Skipf("no ptxas (PTXAS names one): %v", err)
	}
	for _, m := range modules(t) {
		cards := []string{"sm_70", "sm_80", "sm_90", "sm_100"}
		if strings.HasSuffix(m.name, "_sm80") {
			cards = cards[1:]
		}
		for _, card := range cards {
			t.Run(m.name+"/"+card, func(t *testing.T) {
				t.Parallel()
				out := filepath.Join(t.TempDir(), "cubin")
				if err := runIn(".", 2*time.Minute, ptxas, "-arch="+card, "-o", out, filepath.Join("ptx", m.name+".ptx")); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
