package conventions

import (
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestMain runs the tests in the module's root, from which all paths are told. The race detector sees nothing new in sources.
func TestMain(m *testing.M) {
	if extent.RaceDetector {
		return
	}
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		log.Fatal(err)
	}
	m.Run()
}

// list returns the path of a list of places in the sources.
func list(name string) string { return filepath.Join("internal", "conventions", "testdata", name) }
