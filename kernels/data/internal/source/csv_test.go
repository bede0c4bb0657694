package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// csvOf creates a dataset of a CSV file with a number and a string that may be missing, and describes the records.
func csvOf(t *testing.T, text string, header bool, selected ...int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f.csv")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := kt.NewDevice(t)
	types := []tensor.DType{tensor.Int64, tensor.String}
	attrs := kt.Attrs{"output_types": types, "output_shapes": []tensor.Shape{{}, {}}}
	dataset := d.Run(t, kt.Op{Type: "CSVDataset", Attrs: attrs}, kt.Str(nil, name), kt.Str(nil, ""), dt.Int(64), dt.Bool(header), kt.Str(nil, ","), dt.Bool(true),
		kt.Str(nil, "NA"), kt.I64(kt.S(int64(len(selected))), selected...), kt.I64(kt.S(0)), kt.Str(kt.S(1), "-"))[0]
	defer dataset.Release()
	p := &dt.Pipe{Device: d, Now: dataset}
	handle := d.Run(t, kt.Op{Type: "IteratorV2", Attrs: kt.Attrs{"output_types": types, "output_shapes": []tensor.Shape{{}, {}}, "shared_name": t.Name(), "container": ""}})[0]
	d.Run(t, kt.Op{Type: "MakeIterator", Step: kt.NewStep()}, dt.Retained(p.Now), dt.Retained(handle))
	it := &dt.Iterator{T: t, Device: d, Pipe: p, Handle: handle}
	defer it.Close()
	var all []string
	for range 20 {
		out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: attrs, Step: kt.NewStep()}, dt.Retained(handle))
		if err != nil {
			v := dt.Outcome(nil, err)
			all = append(all, v)
			if v == "end" {
				break
			}
			continue
		}
		text := out[1].Tensor.Strings()[0]
		all = append(all, dt.Outcome(out, nil)+":"+text)
	}
	return strings.Join(all, " ")
}

func TestCSV(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		header           bool
		selected         []int64
	}{
		{name: "plain", text: "1,a\n2,b\n", want: "1:a 2:b end"},
		{name: "no last line feed", text: "1,a\r\n2,b", want: "1:a 2:b end"},
		{name: "quotes", text: "1,\"a,\"\"b\"\"\n\"\n\"2\",c\n", want: "1:a,\"b\"\n 2:c end"},
		{name: "missing", text: "1,\n2,NA\n", want: "1:- 2:- end"},
		{name: "a missing number", text: ",a\n2,b\n", want: "INVALID_ARGUMENT 2:b end"},
		{name: "no number", text: "x,a\n2,b\n", want: "INVALID_ARGUMENT 2:b end"},
		{name: "too many fields", text: "1,a,b\n2,b\n", want: "INVALID_ARGUMENT 2:b end"},
		{name: "too few fields", text: "1\n2,b\n", want: "INVALID_ARGUMENT 2:b end"},
		{name: "a bare quote", text: "1,a\"b\n2,b\n", want: "INVALID_ARGUMENT 2:b end"},
		{name: "a quote within", text: "1,\"a\"b\"\n2,b\n", want: "INVALID_ARGUMENT 2:b end"},
		{name: "an open quote", text: "1,\"a\n2,b\n", want: "INVALID_ARGUMENT end"},
		{name: "header", text: "n,s\n1,a\n", header: true, want: "1:a end"},
		{name: "columns", text: "x,1,y,a\nx,2,y,b\n", selected: []int64{1, 3}, want: "1:a 2:b end"},
		{name: "empty", text: "", want: "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := csvOf(t, c.text, c.header, c.selected...); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
