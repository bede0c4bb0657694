//go:build cuda && cgo && linux

package cuda

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/devices/cuda/fake"
	"github.com/troupe-run/troupe/devices/gpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// useDriver makes the tests use the machine's driver if there is one, otherwise the fake one. TROUPE_LIBCUDA overrides this; "system" means
// the machine's driver.
func useDriver(t testing.TB) {
	switch os.Getenv("TROUPE_LIBCUDA") {
	case "":
	case "system":
		t.Setenv("TROUPE_LIBCUDA", "")
		return
	default:
		return
	}
	if _, err := open("libcuda.so.1"); err != nil {
		library := fake.Build(t)
		t.Setenv("TROUPE_LIBCUDA", library)
		t.Setenv("TROUPE_LIBCUBLAS", filepath.Join(filepath.Dir(library), "libcublas.so.12"))
		t.Setenv("FAKE_CUDA_DEVICES", "2")
	}
}

// openCard opens the first card and binds the test's thread. The thread is never unlocked, so it ends with the test.
func openCard(t testing.TB) *context {
	t.Helper()
	runtime.LockOSThread()
	c, err := firstCard(t).Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Bind(); err != nil {
		t.Fatal(err)
	}
	return c.(*context)
}

func firstCard(t testing.TB) gpu.Card {
	t.Helper()
	useDriver(t)
	cards, err := Driver{}.Cards()
	must(t, err)
	return cards[0]
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
