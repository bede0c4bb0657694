package data

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/files"
)

// ImportOptions say which variables an import gives values to.
type ImportOptions struct {
	// Container is the container of the variables. If it is nil, their names say which they are, and must differ.
	Container *string
	// Make is the kind of variables that are made for tensors without one: "resource" or "reference". If it is empty, such tensors are left
	// out.
	Make string
}

// Imported is what an import has written.
type Imported struct {
	Variables int
	Bytes     int64    // of their values
	Made      []string // the names of variables that were not there before
	Left      []string // the names of tensors that no variable is called by, which were left out
}

// kinds are the kinds of variables by their names in ImportOptions.
var kinds = map[string]string{"resource": kernels.KindVariable, "reference": kernels.KindRefVariable}

// Import gives the variables of a stopped task the values that a TensorFlow checkpoint has under their names: after an error, and after a
// crash, all of them or none. It needs the memory of all values.
func Import(ctx context.Context, dir, prefix string, o ImportOptions) (*Imported, error) {
	r, err := checkpoint.Open(files.All, prefix, nil) // durable variables have no variants
	if err != nil {
		return nil, err
	}
	defer r.Close()
	i := &importer{dir: dir, done: &Imported{}}
	defer i.release()
	if err := i.match(r, o); err != nil {
		return nil, err
	}
	if err := i.read(ctx, r); err != nil {
		return nil, err
	}
	if err := i.write(); err != nil {
		return nil, err
	}
	return i.done, nil
}

// importer imports a checkpoint. It opens the store to read it first, so that a refusal changes nothing.
type importer struct {
	dir, owner string
	matches    []*match
	done       *Imported
}

// match is a tensor of the checkpoint and the variable that gets its value.
type match struct {
	durable.Place
	value *tensor.Tensor // nil until it is read
}

// release releases the values that no variable has.
func (i *importer) release() {
	for _, m := range i.matches {
		if m.value != nil {
			m.value.Release()
		}
	}
}

// match finds the variable for each tensor, and checks its type and shape.
func (i *importer) match(r *checkpoint.Reader, o ImportOptions) (err error) {
	kind, known := kinds[o.Make]
	switch {
	case o.Make != "" && !known:
		return status.InvalidArgumentf("variables of kind %q cannot be made; the kinds are resource and reference", o.Make)
	case o.Make != "" && o.Container == nil:
		return status.InvalidArgumentf("variables can only be made in a container that is named: add --container, which is '' for the default container")
	}
	s, err := open(i.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	d, err := s.Directory()
	if err != nil {
		return err
	}
	i.owner = d.Owner
	_, byName, err := s.named(o.Container)
	if err != nil {
		return err
	}
	names, err := r.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		dtype, shape, err := r.Lookup(name)
		if err != nil {
			return err
		}
		v := byName[name]
		switch {
		case v != nil:
			if err := v.takes(dtype, shape); err != nil {
				return err
			}
			i.matches = append(i.matches, &match{Place: v.Place})
		case o.Make == "":
			i.done.Left = append(i.done.Left, name)
		default:
			at := durable.Place{Device: i.owner + "/device:CPU:0", Container: *o.Container, Kind: kind, Name: name}
			i.matches = append(i.matches, &match{Place: at})
			i.done.Made = append(i.done.Made, name)
		}
	}
	if len(i.matches) == 0 {
		return status.Errorf(status.NotFound, "none of the %d tensors of the checkpoint has the name of a variable in %s", len(names), i.dir)
	}
	return nil
}

// takes returns an error if the variable cannot have a value of that type and shape. A variable whose op declares no shape keeps that of its
// value, since programs expect it.
func (r *resource) takes(dtype tensor.DType, shape tensor.Shape) error {
	return r.decoded(func(what containers.Resource) error {
		v := what.(*containers.Variable)
		if v.DType() != dtype {
			return status.InvalidArgumentf("%v is of type %v, and of type %v in the checkpoint", r, v.DType(), dtype)
		}
		want, known := v.Shape, v.KnownShape
		if old := v.Read(); old != nil {
			defer old.Release()
			if !known {
				want, known = old.Shape(), true
			}
		}
		if known && !shape.Compatible(want) {
			return status.InvalidArgumentf("%v has the shape %v, and %v in the checkpoint", r, want, shape)
		}
		return nil
	})
}

// read reads the values.
func (i *importer) read(ctx context.Context, r *checkpoint.Reader) (err error) {
	for _, m := range i.matches {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.value, err = r.Read(tensor.Host, m.Name); err != nil {
			return err
		}
	}
	return nil
}

// write makes the values those of the variables, as one picture: all of them or none.
func (i *importer) write() (err error) {
	quiet := slog.New(slog.DiscardHandler)
	d, err := durable.Open(i.dir, durable.Options{Owner: i.owner, Log: quiet})
	if err != nil {
		return err
	}
	s, err := load(d, i.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	there := map[durable.Place]*resource{}
	for _, r := range s.resources {
		there[r.Place] = r
	}
	if err := s.Err(); err != nil {
		return err // such as a disk that is nearly full
	}
	pictures := containers.NewPictures(d, quiet)
	for _, m := range i.matches {
		if err = m.assign(d, pictures, there[m.Place]); err != nil {
			break // the store has failed: it writes no picture
		}
		i.done.Variables++
		i.done.Bytes += int64(m.value.ByteSize())
	}
	return errors.Join(err, pictures.Stop())
}

// untilStop is an interval of pictures that does not end before an import.
const untilStop = 1000 * time.Hour

// assign gives the variable its value, in memory. to is nil if the variable is to be made.
func (m *match) assign(s *durable.Store, pictures *containers.Pictures, to *resource) (err error) {
	if to == nil {
		if to, err = m.create(s); err != nil {
			return err
		}
	}
	manager := containers.NewManager(nil, m.Device, "")
	manager.Keep(pictures, func(string) (time.Duration, bool) { return untilStop, true })
	v, err := manager.RestoreVariable(to.cell, m.Container, to.about, tensor.Host)
	if err != nil {
		return err
	}
	return v.Replace(nil, func(*tensor.Tensor) (*tensor.Tensor, error) { return m.value.Retain(), nil })
}

// create makes the variable, without a value. Reference variables declare a shape.
func (m *match) create(s *durable.Store) (*resource, error) {
	v := containers.NewVariable(m.Name, m.value.DType())
	if m.Kind == kernels.KindRefVariable {
		v.Shape, v.KnownShape = m.value.Shape(), true
	}
	about, err := v.About()
	if err != nil {
		return nil, err
	}
	c, err := s.Create(m.Place, about)
	return &resource{m.Place, c, about}, err
}
