//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph/tensor"
)

// encodings are the encodings of elements of a matrix type, for whole numbers with few digits.
var encodings = map[tensor.DType]struct {
	put func(b []byte, v float64) []byte
	get func(b []byte) float64
}{
	tensor.Float32: {
		func(b []byte, v float64) []byte {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		},
		func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
	},
	tensor.Float64: {
		func(b []byte, v float64) []byte { return binary.LittleEndian.AppendUint64(b, math.Float64bits(v)) },
		func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) },
	},
	tensor.Float16: {
		func(b []byte, v float64) []byte {
			if v == 0 {
				return append(b, 0, 0)
			}
			f, e := math.Frexp(math.Abs(v))
			bits := uint16(e+14)<<10 | uint16(f*2048)&0x3ff
			if v < 0 {
				bits |= 0x8000
			}
			return binary.LittleEndian.AppendUint16(b, bits)
		},
		func(b []byte) float64 {
			bits := binary.LittleEndian.Uint16(b)
			if bits&0x7fff == 0 {
				return 0
			}
			v := math.Ldexp(float64(bits&0x3ff|0x400), int(bits>>10&0x1f)-25)
			if bits&0x8000 != 0 {
				return -v
			}
			return v
		},
	},
	tensor.BFloat16: {
		func(b []byte, v float64) []byte {
			return binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(v))>>16))
		},
		func(b []byte) float64 {
			return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		},
	},
}

// matrix returns count matrices of rows by columns elements in column-major order: small whole numbers that depend on the seed.
func matrix(count, rows, columns, seed int) []float64 {
	m := make([]float64, count*rows*columns)
	for i := range m {
		m[i] = float64((i*7+seed)%5 - 2)
	}
	return m
}

func TestBlas(t *testing.T) {
	c := openCard(t)
	b, err := c.Blas()
	must(t, err)
	if b == nil {
		t.Skip("there is no cuBLAS")
	}
	const m, n, k, count = 5, 3, 4, 2
	for dtype, as := range encodings {
		for _, transposed := range []struct{ a, b bool }{{}, {a: true}, {b: true}, {true, true}} {
			shape := func(rows, columns int, transposed bool) (int, int) {
				if transposed {
					return columns, rows
				}
				return rows, columns
			}
			aRows, aColumns := shape(m, k, transposed.a)
			bRows, bColumns := shape(k, n, transposed.b)
			x, y, z := matrix(count, aRows, aColumns, 1), matrix(1, bRows, bColumns, 2), matrix(count, m, n, 3)
			want := make([]float64, len(z))
			for q := range count {
				for i := range m {
					for j := range n {
						sum := 0.0
						for p := range k {
							left, right := x[q*m*k+i+p*m], y[p+j*k]
							if transposed.a {
								left = x[q*m*k+p+i*k]
							}
							if transposed.b {
								right = y[j+p*n]
							}
							sum += left * right
						}
						at := q*m*n + i + j*m
						want[at] = 2*sum - z[at]
					}
				}
			}

			var bytes [3][]byte
			var addr [3]uint64
			s, err := c.NewStream()
			must(t, err)
			for i, values := range [][]float64{x, y, z} {
				for _, v := range values {
					bytes[i] = as.put(bytes[i], v)
				}
				addr[i], err = c.Alloc(int64(len(bytes[i])))
				must(t, err)
				must(t, s.CopyIn(addr[i], bytes[i]))
			}
			must(t, b.GemmStridedBatched(s, dtype, transposed.a, transposed.b, m, n, k, 2, addr[0], int64(aRows), m*k,
				addr[1], int64(bRows), 0, -1, addr[2], m, m*n, count))
			check := func(call string, want []float64) {
				t.Helper()
				out := make([]byte, len(bytes[2]))
				must(t, s.CopyOut(out, addr[2]))
				must(t, s.Synchronize())
				size := dtype.Size()
				for i, w := range want {
					if got := as.get(out[i*size:]); got != w {
						t.Fatalf("%s of %v, %+v: element %d is %v, not %v", call, dtype, transposed, i, got, w)
					}
				}
			}
			check("GemmStridedBatched", want)
			// Adding the product with factor -2 to the first result yields -z.
			must(t, b.Gemm(s, dtype, transposed.a, transposed.b, m, n, k, -2, addr[0], int64(aRows), addr[1], int64(bRows),
				1, addr[2], m))
			for i := range m * n {
				want[i] = -z[i]
			}
			check("Gemm", want)
			for _, a := range addr {
				must(t, c.Free(a))
			}
			must(t, s.Close())
		}
	}

	s, err := c.NewStream()
	must(t, err)
	err = b.Gemm(s, tensor.Float32, false, false, m, n, k, 1, 0, 1, 0, 1, 0, 0, 1) // lda is less than m
	var e *gpu.Error
	if !errors.As(err, &e) || e.Call != "cublasGemmEx" || e.Code != 7 || e.Name != "CUBLAS_STATUS_INVALID_VALUE" || e.Text == "" {
		t.Errorf("matrices with too short columns: %v", err)
	}
	if err := b.Gemm(s, tensor.Int32, false, false, m, n, k, 1, 0, m, 0, k, 0, 0, m); err == nil {
		t.Error("a product of int32")
	}
	must(t, s.Close())
	must(t, b.Close())
	must(t, c.Close(false))
}
