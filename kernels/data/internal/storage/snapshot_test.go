package storage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// saving returns the attributes of an op that saves a dataset in shards by parity.
func saving(compression string) kt.Attrs {
	none := []tensor.DType{}
	return kt.Attrs{"compression": compression, "shard_func": kt.Func{Name: "parity"}, "use_shard_func": true, "Tshard_func_args": none,
		"reader_func": kt.Func{Name: "flat"}, "Treader_func_args": none}
}

// sorted returns the elements that a test received, in ascending order, for datasets whose shards come one after the other.
func sorted(told string) string {
	list := strings.Fields(told)
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(fmt.Sprintf("%6s", a), fmt.Sprintf("%6s", b)) })
	return strings.Join(list, " ")
}

func loads(d *kt.Device, dir, compression string) *dt.Pipe {
	return dt.NewPipe(d).Op("LoadDataset", saving(compression), kt.Str(nil, dir))
}

func TestSavedAndLoaded(t *testing.T) {
	for _, compression := range []string{"", "GZIP", "ZLIB", "SNAPPY"} {
		t.Run(compression, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			dir := filepath.Join(t.TempDir(), "saved [it]")
			p := dt.NewPipe(d).Numbers(500)
			out, err := d.Try(kt.Op{Type: "SaveDataset", Attrs: p.Attrs(saving(compression)), Functions: dt.Functions, Step: kt.NewStep()}, dt.Retained(p.Now), kt.Str(nil, dir))
			if err != nil || len(out) != 0 {
				t.Fatal(out, err)
			}
			p.Now.Release()
			l := loads(d, dir, compression)
			it := l.Iterate(t)
			defer l.Now.Release()
			if got, want := it.Rest(600), spaced(0, 500, 2)+" "+spaced(1, 500, 2)+" end"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			it.Close()
			n := d.Run(t, kt.Op{Type: "DatasetCardinality"}, dt.Retained(l.Now))[0]
			if got := tensor.Of[int64](n.Tensor)[0]; got != 500 {
				t.Errorf("%d elements", got)
			}
			n.Release()
		})
	}
}

// spaced returns the numbers from a to b by step.
func spaced(a, b, step int) string {
	var list []string
	for ; a < b; a += step {
		list = append(list, fmt.Sprint(a))
	}
	return strings.Join(list, " ")
}

// An iterator that saves its elements, and is itself saved midway and restored elsewhere, leaves a complete dataset without duplicates.
func TestSavingIsRestored(t *testing.T) {
	for name, op := range map[string]string{"save": "SaveDatasetV2", "snapshot": "SnapshotDatasetV2"} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			dir := t.TempDir()
			writes := func() *dt.Pipe {
				return dt.NewPipe(d).Numbers(20).Op(op, saving("GZIP"), kt.Str(nil, dir))
			}
			p := writes()
			it := p.Iterate(t)
			defer p.Now.Release()
			it.Rest(7)
			state := it.Save()
			defer state.Release()
			it.Rest(5) // later elements are discarded
			it.Close()
			other := writes()
			to := other.Iterate(t)
			defer other.Now.Release()
			if err := to.Restore(state); err != nil {
				t.Fatal(err)
			}
			if got, want := to.Rest(50), spaced(7, 20, 1)+" end"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			to.Close()
			read := writes()
			if op == "SaveDatasetV2" {
				read.Now.Release()
				read = loads(d, dir, "GZIP")
			}
			again := read.Iterate(t)
			defer read.Now.Release()
			if got, want := sorted(again.Rest(50)), sorted(spaced(0, 20, 1)+" end"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			again.Close()
		})
	}
}

// legacy returns the attributes of the first version of snapshots.
func legacy(compression, mode string, more kt.Attrs) kt.Attrs {
	attrs := kt.Attrs{"compression": compression, "mode": mode, "shard_size_bytes": int64(64)}
	for name, v := range more {
		attrs[name] = v
	}
	return attrs
}

func TestSnapshots(t *testing.T) {
	for _, op := range []string{"SnapshotDataset", "SnapshotDatasetV2"} {
		for _, compression := range []string{"", "GZIP", "SNAPPY"} {
			t.Run(op+compression, func(t *testing.T) {
				d := kt.NewDevice(t)
				dt.FunctionDevice = d
				dir := t.TempDir()
				attrs := saving(compression)
				if op == "SnapshotDataset" {
					attrs = legacy(compression, "auto", nil)
				}
				pass := func(most int) string {
					p := dt.NewPipe(d).Numbers(30).Op(op, attrs, kt.Str(nil, dir))
					it := p.Iterate(t)
					defer p.Now.Release()
					defer it.Close()
					return it.Rest(most)
				}
				pass(10) // not to the end, so it does not count
				if op == "SnapshotDataset" {
					dir = t.TempDir() // in dir, that run would count as one that another iterator is writing
				}
				if got, want := pass(50), spaced(0, 30, 1)+" end"; got != want {
					t.Errorf("written: %s", got)
				}
				want := spaced(0, 30, 1) + " end"
				if op == "SnapshotDatasetV2" {
					want = spaced(0, 30, 2) + " " + spaced(1, 30, 2) + " end"
				}
				if got := pass(50); got != want {
					t.Errorf("read: %s\nwant: %s", got, want)
				}
			})
		}
	}
}

// Reading a snapshot continues where its iterator was saved, and another dataset has another snapshot.
func TestSnapshotReadersAreRestored(t *testing.T) {
	for _, op := range []string{"SnapshotDataset", "SnapshotDatasetV2"} {
		t.Run(op, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			dir := t.TempDir()
			attrs := saving("SNAPPY")
			if op == "SnapshotDataset" {
				attrs = legacy("SNAPPY", "auto", nil)
			}
			make := func(n int64) *dt.Pipe { return dt.NewPipe(d).Numbers(n).Op(op, attrs, kt.Str(nil, dir)) }
			first := make(12)
			it := first.Iterate(t)
			defer first.Now.Release()
			it.Rest(50)
			it.Close()
			for n := range 13 {
				p, q := make(12), make(12)
				from, to := p.Iterate(t), q.Iterate(t)
				from.Rest(n)
				state := from.Save()
				want := from.Rest(50)
				if err := to.Restore(state); err != nil {
					t.Fatal(err)
				}
				if got := to.Rest(50); got != want {
					t.Errorf("after %d: got %s, want %s", n, got, want)
				}
				state.Release()
				from.Close()
				to.Close()
				p.Now.Release()
				q.Now.Release()
			}
			other := make(13)
			defer other.Now.Release()
			ot := other.Iterate(t)
			if got, want := ot.Rest(50), spaced(0, 13, 1)+" end"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			ot.Close()
		})
	}
}

func TestBadSnapshots(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	dir := t.TempDir()
	if p := loads(d, filepath.Join(dir, "none"), ""); status.CodeOf(p.Err) != status.NotFound || !strings.Contains(p.Err.Error(), "Could not find metadata file") {
		t.Errorf("without metadata: %v", p.Err)
	}
	if p := loads(d, dir, "LZ4"); status.CodeOf(p.Err) != status.InvalidArgument {
		t.Errorf("compression: %v", p.Err)
	}
	write := func() {
		p := dt.NewPipe(d).Numbers(100)
		if _, err := d.Try(kt.Op{Type: "SaveDataset", Attrs: p.Attrs(saving("")), Functions: dt.Functions, Step: kt.NewStep()}, dt.Retained(p.Now), kt.Str(nil, dir)); err != nil {
			t.Fatal(err)
		}
		p.Now.Release()
	}
	write()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.shard", "*.snapshot"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || os.Truncate(files[0], info.Size()-3) != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	p := loads(d, dir, "")
	it := p.Iterate(t)
	defer p.Now.Release()
	told := strings.Fields(it.Rest(60))
	// The first shard is cut off and the second is missing: the pipeline continues after errors, to its end.
	if !slices.Contains(told, "DATA_LOSS") || !slices.Contains(told, "NOT_FOUND") {
		t.Errorf("got %v", told)
	}
	it.Close()
}

// The existing files of the data service are listed in order, and the others when they appear.
func TestSnapshotChunks(t *testing.T) {
	d := kt.NewDevice(t)
	dir := t.TempDir()
	chunks := filepath.Join(dir, "chunks")
	if err := os.Mkdir(chunks, 0o700); err != nil {
		t.Fatal(err)
	}
	touch := func(path string, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	touch(filepath.Join(chunks, "chunk_1_0_5"), "")
	touch(filepath.Join(chunks, "chunk_0_10_5"), "")
	touch(filepath.Join(chunks, "chunk_0_2_5"), "")
	texts := kt.Attrs{"output_types": []tensor.DType{tensor.String}, "output_shapes": []tensor.Shape{{}}}
	p := dt.NewPipe(d).Op("ListSnapshotChunksDataset", texts, kt.Str(nil, dir))
	it := p.IterateOf(t, texts)
	defer p.Now.Release()
	next := func() string {
		out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: texts, Step: kt.NewStep()}, dt.Retained(it.Handle))
		if err != nil {
			return err.Error()
		}
		defer out[0].Release()
		return filepath.Base(out[0].Tensor.Strings()[0])
	}
	for _, want := range []string{"chunk_1_0_5", "chunk_0_2_5", "chunk_0_10_5"} {
		if got := next(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	touch(filepath.Join(chunks, "chunk_0_11_5"), "")
	touch(filepath.Join(dir, "DONE"), "")
	if got := next(); got != "chunk_0_11_5" {
		t.Errorf("got %q", got)
	}
	if got := next(); !strings.HasPrefix(got, "End of sequence") {
		t.Errorf("got %q", got)
	}
	it.Close()
	touch(filepath.Join(dir, "ERROR"), `code: RESOURCE_EXHAUSTED message: "no \"space\""`)
	q := dt.NewPipe(d).Op("ListSnapshotChunksDataset", texts, kt.Str(nil, dir))
	it = q.IterateOf(t, texts)
	defer q.Now.Release()
	if got := next(); !strings.HasPrefix(got, `no "space"`) {
		t.Errorf("got %q", got)
	}
	it.Close()
}

func TestCompressedElements(t *testing.T) {
	d := kt.NewDevice(t)
	types := []tensor.DType{tensor.Int64, tensor.String, tensor.Bool}
	out := d.Run(t, kt.Op{Type: "CompressElement", Attrs: kt.Attrs{"input_types": types}}, kt.I64(kt.S(3), 1, 2, 3), kt.Str(kt.S(2), "", "some text, some text"), dt.Bool(true))[0]
	m, err := out.Tensor.Proto()
	if err != nil {
		t.Fatal(err)
	}
	out.Release()
	for cut := range 2 {
		if cut > 0 {
			b := m.VariantVal[0].Metadata
			m.VariantVal[0].Metadata = append([]byte{b[0], b[1] - 1}, b[3:]...) // a block without its length
		}
		back, err := tensor.FromTensorProto(m, d.Pool())
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Try(kt.Op{Type: "UncompressElement", Attrs: kt.Attrs{"output_types": types, "output_shapes": []tensor.Shape{{3}, {2}, {}}}}, kernels.Value{Tensor: back})
		if cut > 0 {
			if status.CodeOf(err) != status.Internal {
				t.Errorf("a damaged one: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, s := tensor.Of[int64](got[0].Tensor), got[1].Tensor.Strings(); !slices.Equal(n, []int64{1, 2, 3}) || !slices.Equal(s, []string{"", "some text, some text"}) || !tensor.Of[bool](got[2].Tensor)[0] {
			t.Errorf("got %v %q", n, s)
		}
		for _, v := range got {
			v.Release()
		}
	}
}

// TestCompressedStringsTakeCountedMemory compresses many strings that share their bytes: a small tensor becomes a large block, which must be counted.
func TestCompressedStringsTakeCountedMemory(t *testing.T) {
	d := kt.NewDevice(t)
	shared := slices.Repeat([]string{strings.Repeat("a", 1<<20)}, 1024)
	out, err := d.Try(kt.Op{Type: "CompressElement", Attrs: kt.Attrs{"input_types": []tensor.DType{tensor.String}}}, kt.Str(kt.S(1024), shared...))
	for _, v := range out {
		v.Release()
	}
	if status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a gigabyte is compressed without memory for it: %v", err)
	}
}
