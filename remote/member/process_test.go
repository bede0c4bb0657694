package member

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/troupe-run/troupe/internal/view"
)

// TestAskSystem checks that the system's numbers are those of this process: they grow with what it uses.
func TestAskSystem(t *testing.T) {
	var before, after view.Process
	debug.FreeOSMemory() // otherwise, what is used below may be resident already
	askSystem(&before)
	if runtime.GOOS != "linux" {
		if before.CpuSeconds != 0 || before.Resident != 0 || before.OpenFiles != 0 {
			t.Errorf("it tells %v, though nobody was asked", &before)
		}
		return
	}
	const files = 20
	for range files {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	big := make([]byte, 64<<20)
	for i := range big {
		big[i] = byte(i * i)
	}
	for after.CpuSeconds <= before.CpuSeconds+0.01 {
		for i := range big {
			big[i] ^= byte(i)
		}
		askSystem(&after)
	}
	if grown := after.OpenFiles - before.OpenFiles; grown < files || grown > files+20 {
		t.Errorf("%d open files, and %d after %d more were opened", before.OpenFiles, after.OpenFiles, files)
	}
	if grown := after.Resident - before.Resident; grown < 32<<20 {
		t.Errorf("%d bytes resident, and %d after %d more were used", before.Resident, after.Resident, len(big))
	}
	runtime.KeepAlive(big)
}

func BenchmarkAskSystem(b *testing.B) {
	for b.Loop() {
		var p view.Process
		askSystem(&p)
	}
}
