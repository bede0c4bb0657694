package data

import (
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/queues"
)

const device = "/job:ps/replica:0/task:0/device:CPU:0"

// maker makes a directory.
type maker struct {
	*durable.Store
	t   *testing.T
	dir string
}

func begin(t *testing.T, dir string) maker {
	t.Helper()
	s, err := durable.Open(dir, durable.Options{Owner: "/job:ps/replica:0/task:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return maker{s, t, dir}
}

func (m maker) end() {
	m.t.Helper()
	if err := m.Close(); err != nil {
		m.t.Fatal(err)
	}
}

func (m maker) cell(container, kind, name string, of containers.Durable) *durable.Cell {
	m.t.Helper()
	about, err := of.About()
	if err != nil {
		m.t.Fatal(err)
	}
	c, err := m.Create(durable.Place{Device: device, Container: container, Kind: kind, Name: name}, about)
	if err != nil {
		m.t.Fatal(err)
	}
	of.Keep(c)
	return c
}

// variable makes a variable, with a value unless it is nil.
func (m maker) variable(container, kind, name string, value *tensor.Tensor) *durable.Cell {
	m.t.Helper()
	d := tensor.Float32
	if value != nil {
		d = value.DType()
	}
	v := containers.NewVariable(name, d)
	c := m.cell(container, kind, name, v)
	if value == nil {
		return c
	}
	tx := m.Begin()
	if err := v.Replace(tx, func(*tensor.Tensor) (*tensor.Tensor, error) { return value, nil }); err != nil {
		m.t.Fatal(err)
	}
	m.commit(tx)
	return c
}

// queue makes a closed queue with elements.
func (m maker) queue(container, name string, elements ...int64) {
	m.t.Helper()
	q, err := queues.Spawn(nil, queues.Options{Name: name, DTypes: []tensor.DType{tensor.Int64}, Capacity: -1})
	if err != nil {
		m.t.Fatal(err)
	}
	m.cell(container, kernels.KindQueue, name, q)
	for _, e := range elements {
		q.Enqueue([]*tensor.Tensor{tensor.Scalar(tensor.Int64, e)}, func(err error) {
			if err != nil {
				m.t.Error(err)
			}
		})
	}
	q.CloseQueue(false, nil, func(error) {})
}

func (m maker) commit(tx *durable.Tx) {
	m.t.Helper()
	done := make(chan error, 1)
	tx.End(func(err error) { done <- err })
	if err := <-done; err != nil {
		m.t.Fatal(err)
	}
}

// damage replaces the first entry of a resource.
func (m maker) damage(c *durable.Cell) {
	tx := m.Begin()
	tx.Set(c, nil, garbage{})
	m.commit(tx)
}

type garbage struct{}

func (garbage) Append(b []byte) ([]byte, error) { return append(b, "garbage"...), nil }
func (garbage) Release()                        {}

func matrix() *tensor.Tensor {
	t, _ := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{2, 3})
	copy(tensor.Of[float32](t), []float32{1, 2, 3, 4, 5, 6})
	return t
}

func text(s string) *tensor.Tensor {
	t, _ := tensor.FromStrings(tensor.Shape{}, []string{s})
	return t
}

// contents are the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestShow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ps-0")
	m := begin(t, dir)
	m.variable("model", kernels.KindVariable, "w", matrix())
	m.variable("model", kernels.KindRefVariable, "none", nil)
	m.variable("", kernels.KindVariable, "words", text("a"))
	m.queue("jobs", "work", 1, 2, 3)
	if _, err := Show(t.Context(), dir); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a directory in use: %v", err)
	}
	m.end()
	before := contents(t, dir)
	found, err := Find(filepath.Dir(dir))
	if err != nil || !slices.Equal(found, []string{dir}) {
		t.Fatalf("found %v: %v", found, err)
	}
	shown, err := Show(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if shown.Owner != "/job:ps/replica:0/task:0" || shown.Format != 1 || !shown.Stopped || shown.Written == 0 || shown.Bytes == 0 {
		t.Errorf("the directory is %+v", shown)
	}
	for i := range shown.Resources {
		if r := &shown.Resources[i]; r.Description != "float, no value" && r.Bytes == 0 {
			t.Errorf("%s has no bytes", r.Name)
		}
		shown.Resources[i].Bytes = 0
	}
	if want := []Resource{
		{Device: device, Kind: "Var", Name: "words", Description: "string []", Variable: &Variable{"string", []int64{}}},
		{Device: device, Container: "jobs", Kind: "Queue", Name: "work", Description: "FIFOQueue of (int64), 3 elements, no limit, closed", Queue: &Queue{"FIFOQueue", 3, true}},
		{Device: device, Container: "model", Kind: "LegacyVar", Name: "none", Description: "float, no value", Variable: &Variable{"float", nil}},
		{Device: device, Container: "model", Kind: "Var", Name: "w", Description: "float [2,3]", Variable: &Variable{"float", []int64{2, 3}}},
	}; !reflect.DeepEqual(shown.Resources, want) {
		t.Errorf("the resources are %+v", shown.Resources)
	}
	r, err := Check(t.Context(), dir)
	if err != nil || len(r.Problems) > 0 || r.Resources != 4 || r.Entries != 6 {
		t.Errorf("the check reports %+v: %v", r, err)
	}
	if !maps.Equal(contents(t, dir), before) {
		t.Error("the files have changed")
	}
}

func TestFindNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := Find(dir); status.CodeOf(err) != status.NotFound {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Find(filepath.Join(dir, "absent")); err == nil {
		t.Error("a directory that does not exist is found")
	}
}

// TestDamage damages a value that the store knows nothing of, and then a file.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	m := begin(t, dir)
	m.damage(m.variable("c", kernels.KindVariable, "bad", tensor.Scalar(tensor.Int64, int64(1))))
	m.variable("c", kernels.KindVariable, "good", tensor.Scalar(tensor.Int64, int64(1)))
	if _, err := m.Create(durable.Place{Device: device, Container: "c", Kind: "Later", Name: "x"}, nil); err != nil {
		t.Fatal(err)
	}
	m.end()
	r, err := Check(t.Context(), dir)
	if err != nil || len(r.Problems) != 2 || r.Resources != 1 || !strings.Contains(r.Problems[0], "Later x of the container c") ||
		!strings.Contains(r.Problems[1], "Var bad of the container c") {
		t.Errorf("the check reports %+v: %v", r, err)
	}
	shown, err := Show(t.Context(), dir)
	if err != nil || shown.Resources[1].Problem == "" || shown.Resources[2].Problem != "" {
		t.Errorf("it shows %+v: %v", shown, err)
	}
	if _, err := Export(t.Context(), dir, filepath.Join(t.TempDir(), "m"), nil); status.CodeOf(err) != status.DataLoss {
		t.Errorf("an export: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "OWNER"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err = Check(t.Context(), dir)
	if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "OWNER") {
		t.Errorf("with a damaged file, the check reports %+v: %v", r, err)
	}
}

func TestExport(t *testing.T) {
	dir, prefix := t.TempDir(), filepath.Join(t.TempDir(), "m")
	m := begin(t, dir)
	m.variable("a", kernels.KindVariable, "w", matrix())
	m.variable("a", kernels.KindVariable, "none", nil)
	m.variable("a", kernels.KindRefVariable, "words", text("text"))
	m.variable("b", kernels.KindVariable, "w", tensor.Scalar(tensor.Int64, int64(5)))
	m.queue("a", "work", 1)
	m.end()
	a, absent := "a", "absent"
	for _, c := range []struct {
		container *string
		prefix    string
		code      status.Code
		want      string
	}{
		{nil, prefix, status.FailedPrecondition, `"a" and "b" both have a variable w`},
		{&absent, prefix, status.NotFound, `those with variables are "a", "b"`},
		{&a, filepath.Join(dir, "m"), status.InvalidArgument, "among the files of the data"},
	} {
		if _, err := Export(t.Context(), dir, c.prefix, c.container); status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v", err)
		}
	}
	done, err := Export(t.Context(), dir, prefix, &a)
	if err != nil || done.Variables != 2 || !slices.Equal(done.Empty, []string{"none"}) {
		t.Fatalf("exported %+v: %v", done, err)
	}
	r, err := checkpoint.Open(files.All, prefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := r.Read(tensor.Host, "w")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Release()
	want := matrix()
	defer want.Release()
	if !w.Shape().Equal(want.Shape()) || !slices.Equal(w.Data(), want.Data()) {
		t.Errorf("w is %v", w)
	}
	words, err := r.Read(tensor.Host, "words")
	if err != nil || words.Strings()[0] != "text" {
		t.Errorf("words is %v: %v", words, err)
	}
}

// TestImport imports what another task has exported. What the checkpoint cannot give is refused, and then nothing has changed.
func TestImport(t *testing.T) {
	from, to, prefix := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "m")
	m := begin(t, from)
	m.variable("a", kernels.KindVariable, "w", matrix())
	m.variable("a", kernels.KindRefVariable, "words", text("text"))
	m.variable("a", kernels.KindVariable, "more", tensor.Scalar(tensor.Int64, int64(7)))
	m.end()
	if _, err := Export(t.Context(), from, prefix, nil); err != nil {
		t.Fatal(err)
	}
	m = begin(t, to)
	zeros, _ := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{2, 3})
	m.variable("a", kernels.KindVariable, "w", zeros)
	m.variable("a", kernels.KindRefVariable, "words", text(""))
	m.variable("b", kernels.KindVariable, "w", tensor.Scalar(tensor.Float32, float32(1)))
	m.variable("c", kernels.KindVariable, "w", tensor.Scalar(tensor.Int64, int64(1)))
	m.variable("d", kernels.KindVariable, "w", nil)
	m.queue("a", "work", 1)
	m.end()
	before := contents(t, to)
	a, b, c, d, none := "a", "b", "c", "d", "none"
	for _, x := range []struct {
		o    ImportOptions
		code status.Code
		want string
	}{
		{ImportOptions{}, status.FailedPrecondition, "both have a variable w"},
		{ImportOptions{Container: &b}, status.InvalidArgument, "has the shape [], and [2,3] in the checkpoint"},
		{ImportOptions{Container: &c}, status.InvalidArgument, "is of type int64, and of type float in the checkpoint"},
		{ImportOptions{Container: &none}, status.NotFound, "none of the 3 tensors"},
		{ImportOptions{Make: "resource"}, status.InvalidArgument, "add --container"},
		{ImportOptions{Container: &a, Make: "other"}, status.InvalidArgument, "the kinds are resource and reference"},
	} {
		if _, err := Import(t.Context(), to, prefix, x.o); status.CodeOf(err) != x.code || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x.o, err)
		}
	}
	if !maps.Equal(contents(t, to), before) {
		t.Error("a refusal has changed files")
	}
	done, err := Import(t.Context(), to, prefix, ImportOptions{Container: &a})
	if err != nil || done.Variables != 2 || !slices.Equal(done.Left, []string{"more"}) || done.Made != nil {
		t.Fatalf("imported %+v: %v", done, err)
	}
	if done, err = Import(t.Context(), to, prefix, ImportOptions{Container: &d}); err != nil || done.Variables != 1 {
		t.Fatalf("a variable without a value: %+v: %v", done, err)
	}
	done, err = Import(t.Context(), to, prefix, ImportOptions{Container: &none, Make: "reference"})
	if err != nil || done.Variables != 3 || !slices.Equal(done.Made, []string{"more", "w", "words"}) {
		t.Fatalf("made %+v: %v", done, err)
	}
	shown, err := Show(t.Context(), to)
	if err != nil || !shown.Stopped {
		t.Fatalf("it shows %+v: %v", shown, err)
	}
	for _, r := range shown.Resources {
		if r.Container == "none" && (r.Kind != kernels.KindRefVariable || r.Device != device) {
			t.Errorf("made %+v", r)
		}
	}
	again := filepath.Join(t.TempDir(), "m")
	for _, container := range []string{a, d, none} {
		if _, err := Export(t.Context(), to, again, &container); err != nil {
			t.Fatal(err)
		}
		r, err := checkpoint.Open(files.All, again, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := r.Read(tensor.Host, "w")
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := matrix()
		if !w.Shape().Equal(want.Shape()) || !slices.Equal(w.Data(), want.Data()) {
			t.Errorf("w of %s is %v", container, w)
		}
		want.Release()
		w.Release()
	}
}
