package example

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// debug returns the Feature with these values in the text format of protocol buffers, as in TensorFlow's messages. It counts the values
// first: a malformed list shows none.
func (v values) debug() string {
	if v.dtype == tensor.Invalid {
		return ""
	}
	n, ok := v.count()
	if !ok {
		n = 0
	}
	to := column{floats: make([]byte, 4*n), ints: make([]int64, n), texts: make([]string, n)}
	if ok {
		v.put(to, 0, len(v.body))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s_list {\n", word(v.dtype))
	for i := range n {
		b.WriteString("  value: ")
		b.WriteString(listKinds[v.dtype].text(to, i) + "\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func floatText(from column, i int) string {
	f := math.Float32frombits(binary.LittleEndian.Uint32(from.floats[4*i:]))
	return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(float64(f), 'g', -1, 32), "+"))
}

// escape formats bytes as the text format does: unprintable ones in octal.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '"' || c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
