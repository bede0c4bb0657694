package tensor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMachine: the smallest limit of the machine and of the process's control groups applies, for both versions, whether the groups appear
// under the host's names or as in a container.
func TestMachine(t *testing.T) {
	const meminfo = "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n"
	for _, test := range []struct {
		name             string
		files            map[string]string
		total, available int64
	}{
		{"no group", map[string]string{"proc/meminfo": meminfo}, 16 << 30, 8 << 30},
		{"version 2, the parent bounds", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/slice/unit\n",
			"sys/fs/cgroup/slice/memory.max": "2147483648\n", "sys/fs/cgroup/slice/memory.current": "1073741824\n",
			"sys/fs/cgroup/slice/memory.stat":     "anon 5\ninactive_file 536870912\n",
			"sys/fs/cgroup/slice/unit/memory.max": "max\n"}, 2 << 30, 3 << 29},
		{"version 2, in a container", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/host/name\n",
			"sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "1073741825\n"}, 1 << 30, 0},
		{"version 1", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu,memory:/a\n2:cpuset:/\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4294967296\n", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "0\n"}, 4 << 30, 4 << 30},
		{"another system", nil, 0, -1},
	} {
		root := t.TempDir()
		for name, text := range test.files {
			name = filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m := machine{root}
		if total, available := m.total(), m.available(); total != test.total || available != test.available {
			t.Errorf("%s: %d bytes, %d available; want %d and %d", test.name, total, available, test.total, test.available)
		}
	}
}

// TestProcessMemory checks that the live memory and the Go heap's overhead fit into the machine or the control group.
func TestProcessMemory(t *testing.T) {
	for machine, want := range map[int64]int64{0: 0, 64 << 20: 32 << 20, 256 << 20: 160 << 20, 400 << 20: 304 << 20, 1 << 30: 1<<30 - (1<<30)/5, 64 << 30: 64<<30 - (64<<30)/5} {
		limit := processMemory(machine)
		if limit != want {
			t.Errorf("of %d bytes %d may be alive, want %d", machine, limit, want)
		}
		runtime := runtimeMemory(limit, machine)
		if machine > 0 && (runtime <= limit || runtime > machine-outsideRuntime/2) {
			t.Errorf("of %d bytes, %d may be alive and %d are the runtime's", machine, limit, runtime)
		}
	}
	// The operator may set more than the machine has.
	if got := runtimeMemory(2<<30, 1<<30); got < 2<<30 {
		t.Errorf("got %d", got)
	}
}
