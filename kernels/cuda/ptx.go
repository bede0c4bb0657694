// Package cuda provides the kernels of CUDA devices: their sources (*.cu, in CUDA C on top of troupe.cuh), the PTX that build.sh compiles
// from them, and an index from each kernel to its module.
//
// Only binaries with the build tag cuda contain the PTX. A driver compiles a module for its card when it loads it. Modules are therefore
// loaded only when one of their kernels is first needed.
package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// module is a PTX file.
type module struct {
	file string
	name string // the source file's name without .cu
	id   string // the beginning of the text's hash
	text string
}

// Module returns the PTX that defines a kernel. It also returns a unique name for that PTX, which changes with its text and can therefore
// serve as a key for loaded modules. ok is false if no module has the kernel, and always without the build tag cuda. Module is safe for
// concurrent use.
func Module(function string) (name, ptx string, ok bool) {
	m, ok := index()[function]
	if !ok {
		return "", "", false
	}
	text, err := fs.ReadFile(compiled, m.file)
	if err != nil {
		panic(err) // the binary's own files are broken, which a test would detect
	}
	return m.name + "-" + m.id, string(text), true
}

// Functions returns the names of all kernels in order, or none without the build tag cuda.
func Functions() []string { return slices.Sorted(maps.Keys(index())) }

// index has the module of each kernel, without its text.
var index = sync.OnceValue(func() map[string]*module {
	if compiled == nil {
		return nil
	}
	modules, err := readModules(compiled)
	if err != nil {
		panic(err)
	}
	byFunction := map[string]*module{}
	for _, m := range modules {
		for _, f := range entries(m.text) {
			byFunction[strings.Clone(f)] = m
		}
		m.text = ""
	}
	return byFunction
})

// readModules reads the PTX files in folder's subfolder ptx.
func readModules(folder fs.FS) ([]*module, error) {
	files, err := fs.Glob(folder, "ptx/*.ptx")
	if err != nil {
		return nil, err
	}
	var all []*module
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		if bytes.IndexByte(text, 0) >= 0 { // the driver would stop reading there
			return nil, fmt.Errorf("%s: a zero byte in PTX", file)
		}
		sum := sha256.Sum256(text)
		all = append(all, &module{file, strings.TrimSuffix(path.Base(file), ".ptx"), hex.EncodeToString(sum[:6]), string(text)})
	}
	return all, nil
}

// entries returns the kernels that PTX defines.
func entries(ptx string) []string {
	var names []string
	for {
		_, after, found := strings.Cut(ptx, "\n.visible .entry ")
		if !found {
			return names
		}
		name, rest, _ := strings.Cut(after, "(")
		names, ptx = append(names, name), rest
	}
}
