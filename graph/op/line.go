package op

import (
	"path/filepath"
	"runtime"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// builders are the packages whose functions add operations on behalf of their callers, so errors belong to the callers.
var builders = []string{"/graph/op.", "/graph/grad.", "/graph/train."}

// at prefixes an error with the line of the program that called the builders.
func at(err error) error {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if f.Function != "" && !built(f) {
			return status.Errorf(status.CodeOf(err), "%s:%d: %v", filepath.Base(f.File), f.Line, err)
		}
		if !more {
			return err
		}
	}
}

func built(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	for _, b := range builders {
		if strings.Contains(f.Function, module+b) {
			return true
		}
	}
	return false
}

// module is the common prefix of the builders' import paths.
const module = "github.com/troupe-run/troupe"
