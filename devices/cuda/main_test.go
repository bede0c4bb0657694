//go:build cuda && cgo && linux

package cuda

import (
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/devices/gpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests run on the driver that TROUPE_LIBCUDA names, which is mostly one for machines without a card, or on the
// machine's own; without any they skip.

// openCard opens the first card and binds the test's thread, which ends with the test: it is never unlocked.
func openCard(t *testing.T) *context {
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

func firstCard(t *testing.T) gpu.Card {
	t.Helper()
	cards, err := Driver{}.Cards()
	if err != nil && os.Getenv("TROUPE_LIBCUDA") == "" {
		t.Skipf("no cards: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cards[0]
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
