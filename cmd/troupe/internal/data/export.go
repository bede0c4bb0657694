package data

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/files"
)

// Exported is what an export has written.
type Exported struct {
	Variables int
	Bytes     int64    // of their values
	Empty     []string // the names of variables without a value, which were left out
}

// Export writes the variables of a directory as a TensorFlow checkpoint, one after the other: those of a container, or all if container is
// nil.
func Export(ctx context.Context, dir, prefix string, container *string) (done *Exported, err error) {
	s, err := open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	variables, err := s.variables(container)
	if err != nil {
		return nil, err
	}
	if prefix, err = filepath.Abs(prefix); err != nil {
		return nil, err
	}
	if err := outside(dir, prefix); err != nil {
		return nil, err
	}
	w, err := checkpoint.Create(files.All, prefix, nil) // durable variables have no variants
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	done = &Exported{}
	for _, r := range variables {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.decoded(func(v containers.Resource) error { return done.add(w, r.Name, v.(*containers.Variable)) }); err != nil {
			return nil, err
		}
	}
	if done.Variables == 0 {
		return nil, status.Errorf(status.NotFound, "none of the %d variables has a value", len(variables))
	}
	return done, w.Finish()
}

// outside refuses to write a checkpoint into the directory of the data.
func outside(dir, prefix string) error {
	into, err := os.Stat(filepath.Dir(prefix))
	if err != nil {
		return nil //nolint:nilerr // the checkpoint makes the folder, or says why it can't
	}
	if of, err := os.Stat(dir); err != nil || os.SameFile(of, into) {
		return errors.Join(err, status.Errorf(status.InvalidArgument, "the checkpoint %s would be among the files of the data: write it elsewhere", prefix))
	}
	return nil
}

// add writes a variable's value.
func (e *Exported) add(w *checkpoint.Writer, name string, v *containers.Variable) error {
	t := v.Read()
	if t == nil {
		e.Empty = append(e.Empty, name)
		return nil
	}
	defer t.Release()
	if err := w.Add(name, t); err != nil {
		return err
	}
	e.Variables++
	e.Bytes += int64(t.ByteSize())
	return nil
}

// variables returns the variables of a container, or of all if it is nil. Their names differ, and there is at least one.
func (s *store) variables(container *string) ([]*resource, error) {
	all, byName, err := s.named(container)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, status.Errorf(status.NotFound, "there are no variables in %s", s.dir)
	case len(byName) == 0:
		return nil, status.Errorf(status.NotFound, "the container %q has no variables in %s; those with variables are %s", *container, s.dir, quoted(all))
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *resource) int { return strings.Compare(a.Name, b.Name) }), nil
}

// named returns the variables of a container by name, or those of all containers if it is nil, and the names of the containers that have variables.
func (s *store) named(container *string) (all []string, byName map[string]*resource, err error) {
	byName = map[string]*resource{}
	for _, r := range s.resources {
		if !r.isVariable() {
			continue
		}
		if !slices.Contains(all, r.Container) {
			all = append(all, r.Container)
		}
		if container != nil && r.Container != *container {
			continue
		}
		if other := byName[r.Name]; other != nil {
			return nil, nil, sameName(other, r)
		}
		byName[r.Name] = r
	}
	return all, byName, nil
}

// sameName is the error for two variables of one name.
func sameName(a, b *resource) error {
	if a.Container != b.Container {
		return status.Errorf(status.FailedPrecondition, "the containers %q and %q both have a variable %s, and a checkpoint has each name once: choose one with --container", a.Container, b.Container, a.Name)
	}
	return status.Errorf(status.FailedPrecondition, "a checkpoint has each name once, and two variables have the same: %v and %v; choose another container with --container", a, b)
}

func quoted(names []string) string {
	slices.Sort(names)
	return `"` + strings.Join(names, `", "`) + `"`
}
