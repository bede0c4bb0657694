// Opgen writes the constructors of package graph/op, one for each op that has kernels, and the attributes of
// package graph/op/attr, from the declarations of the ops:
//
//	go generate ./graph/op
//
// The first sentence of each constructor's comment is in ops.txt. Its sections become files.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
)

func main() {
	dir := flag.String("dir", ".", "the folder of package graph/op")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "opgen:", err)
		os.Exit(1)
	}
}

// write replaces the generated files of the packages at dir and dir/attr.
func write(dir string) error {
	files, err := generate(kernels.Ops())
	if err != nil {
		return err
	}
	old, err := generated(dir)
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, ok := files[name]; !ok {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generated returns the names of the existing generated files, relative to dir.
func generated(dir string) ([]string, error) {
	var names []string
	for _, pattern := range []string{"gen_*.go", "attr/gen_*.go"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			name, err := filepath.Rel(dir, p)
			if err != nil {
				return nil, err
			}
			names = append(names, filepath.ToSlash(name))
		}
	}
	return names, nil
}
