package input

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/parse"
)

// csvOp is DecodeCSV (core/kernels/decode_csv_op.cc): it parses lines of fields, by RFC 4180 with a configurable delimiter, into one tensor
// per column.
type csvOp struct {
	types     []tensor.DType
	delimiter byte
	quotes    bool // fields may be quoted
	missing   string
	columns   []int64 // columns to read; all if empty
}

func newDecodeCSV(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	types, delimiter, quotes := a.TypeList("OUT_TYPE"), a.Str("field_delim"), a.Bool("use_quote_delim")
	missing, columns := a.Str("na_value"), a.IntList("select_cols")
	if err := a.Err(); err != nil {
		return nil, err
	}
	if len(columns) != 0 && len(columns) != len(types) {
		return nil, status.InvalidArgumentf("select_cols should match output size")
	}
	for i := 1; i < len(columns); i++ {
		if columns[i-1] >= columns[i] {
			return nil, status.InvalidArgumentf("select_cols should be strictly increasing indices")
		}
	}
	switch {
	case len(columns) > 0 && columns[0] < 0:
		return nil, status.InvalidArgumentf("select_cols should be non-negative indices")
	case len(delimiter) != 1:
		return nil, status.InvalidArgumentf("field_delim should be only 1 char")
	}
	return &csvOp{types, delimiter[0], quotes, missing, columns}, nil
}

// Compute reads the records of input 0.
func (k *csvOp) Compute(ctx *kernels.Context) error {
	for i := range k.types {
		switch t := ctx.Input(1 + i); {
		case t.Rank() > 1:
			return status.InvalidArgumentf("Each record default should be at most rank 1")
		case t.Len() > 1:
			return status.InvalidArgumentf("There should only be 1 default per field but field %d has %d", i, t.Len())
		}
	}
	records := ctx.Input(0)
	for i, dtype := range k.types {
		if _, err := ctx.Allocate(i, dtype, records.Shape()); err != nil {
			return err
		}
	}
	fields := make([]string, 0, len(k.types))
	end := ctx.Lookout()
	for i, record := range records.Strings() {
		if err := end.After(fieldTime*len(k.types) + len(record)); err != nil {
			return err
		}
		var err error
		if fields, err = k.split(fields[:0], record); err != nil {
			return err
		}
		if len(fields) != len(k.types) {
			return status.InvalidArgumentf("Expect %d fields but have %d in record %d", len(k.types), len(fields), i)
		}
		for f, field := range fields {
			if err := k.put(ctx, f, i, field, len(record)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fieldTime is the time in nanoseconds to read a short field.
const fieldTime = 50

// put stores field f of record i as an element of its column.
func (k *csvOp) put(ctx *kernels.Context, f, i int, field string, record int) error {
	out := ctx.Outputs[f].Tensor
	if field == "" || field == k.missing {
		value := ctx.Input(1 + f)
		if value.Len() == 0 {
			return status.InvalidArgumentf("Field %d is required but missing in record %d!", f, i)
		}
		if out.DType() == tensor.String {
			out.Strings()[i] = value.Strings()[0]
		} else {
			size := out.DType().Size()
			copy(out.Data()[i*size:], value.Data())
		}
		return nil
	}
	if out.DType() == tensor.String {
		if 2*len(field) < record {
			field = strings.Clone(field) // do not keep the record in memory
		}
		out.Strings()[i] = field
		return nil
	}
	read, ok := csvNumbers[out.DType()]
	if !ok {
		return status.InvalidArgumentf("csv: data type %v not supported in field %d", out.DType(), f)
	}
	if !read(out, i, field) {
		return status.InvalidArgumentf("Field %d in record %d is not a valid %v: %s", f, i, out.DType(), field)
	}
	return nil
}

var csvNumbers = parse.Numbers(csvInt, csvFloat)

func csvInt(s string, bits int) (int64, error) { return parse.Int(parse.TrimSpace(s), bits) }

func csvFloat(s string, bits int) (float64, error) { return parse.Float(parse.TrimSpace(s), bits) }

// split appends the wanted fields of a record.
func (k *csvOp) split(fields []string, record string) ([]string, error) {
	column, wanted := int64(0), 0
	include := func() bool { return len(k.columns) == 0 || k.columns[wanted] == column }
	for at := 0; at < len(record); column++ {
		if record[at] == '\n' || record[at] == '\r' {
			at++
			column--
			continue
		}
		var field string
		var err error
		if k.quotes && record[at] == '"' {
			field, at, err = k.quoted(record, at+1)
		} else {
			field, at, err = k.plain(record, at)
		}
		if err != nil {
			return nil, err
		}
		if include() {
			fields = append(fields, field)
			if wanted++; wanted == len(k.columns) {
				return fields, nil
			}
		}
	}
	if record != "" && include() && record[len(record)-1] == k.delimiter {
		fields = append(fields, "")
	}
	return fields, nil
}

// plain reads an unquoted field starting at from, and returns the position of the next field.
func (k *csvOp) plain(record string, from int) (field string, next int, err error) {
	at := from
	for ; at < len(record) && record[at] != k.delimiter; at++ {
		if c := record[at]; k.quotes && c == '"' || c == '\n' || c == '\r' {
			return "", 0, status.InvalidArgumentf("Unquoted fields cannot have quotes/CRLFs inside")
		}
	}
	return record[from:at], at + 1, nil
}

// quoted reads a field from the position after its opening quote.
func (k *csvOp) quoted(record string, from int) (field string, next int, err error) {
	at, escapes := from, false
	for at < len(record)-1 && (record[at] != '"' || record[at+1] != k.delimiter) {
		if record[at] != '"' {
			at++
			continue
		}
		if record[at+1] != '"' {
			return "", 0, status.InvalidArgumentf("Quote inside a string has to be escaped by another quote")
		}
		escapes = true
		at += 2
	}
	if at >= len(record) || record[at] != '"' || at < len(record)-1 && record[at+1] != k.delimiter {
		return "", 0, status.InvalidArgumentf("Quoted field has to end with quote followed by delim or end")
	}
	field = record[from:at]
	if escapes {
		field = strings.ReplaceAll(field, `""`, `"`)
	}
	return field, at + 2, nil
}
