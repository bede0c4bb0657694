package conventions

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// linked are programs, each with the most megabytes that it may take when it is stripped, and the packages that it must not carry along. The
// sizes have room for a new version of Go, and none for a library that somebody imports in passing.
var linked = map[string]struct {
	program   string // a package, or the text of a main package
	megabytes int64
	never     []string
}{
	"a client": {`package main

import (
	"context"
	"fmt"
	"os"

	"github.com/troupe-run/troupe/remote/client"
)

func main() {
	c, err := client.Dial(context.Background(), os.Args[1])
	if err == nil {
		_, err = c.NewSession(context.Background(), nil, nil)
	}
	if err == nil {
		_, err = c.SpawnActor(context.Background(), "counter", "worker/0", "votes", nil)
	}
	fmt.Println(err)
}
`, 11, []string{module + "/actors", module + "/devices", module + "/kernels", "github.com/cockroachdb", "github.com/prometheus", "html/template"}},
	"a node": {"./examples/hello", 18, []string{module + "/devices", module + "/kernels", module + "/containers", module + "/queues", "github.com/cockroachdb", "html/template"}},
	"a server without an HTTP endpoint": {`package main

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
)

func main() {
	server, err := troupe.NewLocalServer(context.Background())
	fmt.Println(server, err)
}
`, 56, []string{module + "/kernels/kernelstest", "github.com/spf13", "golang.org/x/net/trace"}},
}

func TestLinkedPrograms(t *testing.T) {
	if !extent.Check() {
		t.Skip("it links programs")
	}
	for name, c := range linked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			from, binary := c.program, filepath.Join(dir, "program")
			if strings.Contains(from, "\n") {
				from = filepath.Join(dir, "main.go")
				if err := os.WriteFile(from, []byte(c.program), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, p := range goList(t, "-deps", from) {
				if slices.ContainsFunc(c.never, func(n string) bool { return within(p.ImportPath, n) }) {
					t.Errorf("it carries %s along", p.ImportPath)
				}
			}
			if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, from).CombinedOutput(); err != nil {
				t.Fatalf("go build: %v: %s", err, out)
			}
			info, err := os.Stat(binary)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Size(); got > c.megabytes*1e6 {
				t.Errorf("it takes %.1f MB, and may take %d", float64(got)/1e6, c.megabytes)
			}
		})
	}
}
