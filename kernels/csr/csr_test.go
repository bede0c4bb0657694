package csr_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// random returns a sparse matrix of n rows and columns, with elements at some positions, some of them duplicated.
func random(t *testing.T, d *kt.Device, rng *rand.Rand, n, elements int) *tensor.Tensor {
	t.Helper()
	var at []int64
	values := make([]float32, elements)
	for i := range values {
		at = append(at, int64(rng.IntN(n)), int64(rng.IntN(n)))
		values[i] = float32(rng.IntN(9)) + 1
	}
	return compress(t, d, kt.I64(kt.S(int64(elements), 2), at...), kt.F32(kt.S(int64(elements)), values...), int64(n), int64(n))
}

func compress(t *testing.T, d *kt.Device, indices, values *tensor.Tensor, dims ...int64) *tensor.Tensor {
	t.Helper()
	return d.Run(t, kt.Op{Type: "SparseTensorToCSRSparseMatrix", Outputs: 1}, indices, values, kt.I64(kt.S(int64(len(dims))), dims...))[0].Tensor
}

// An order is a permutation, whatever the matrix.
func TestOrder(t *testing.T) {
	d, rng := kt.NewDevice(t), rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + rng.IntN(60)
		m := random(t, d, rng, n, rng.IntN(4*n))
		out := d.Run(t, kt.Op{Type: "SparseMatrixOrderingAMD", Outputs: 1}, m)[0].Tensor
		got := slices.Sorted(slices.Values(tensor.Of[int32](out)))
		for i, v := range got {
			if int(v) != i {
				t.Fatalf("the order of %d rows is %v", n, tensor.Of[int32](out))
			}
		}
		out.Release()
	}
}

// Products equal those of dense matrices.
func TestProducts(t *testing.T) {
	d, rng := kt.NewDevice(t), rand.New(rand.NewPCG(3, 4))
	dense := func(m *tensor.Tensor) *tensor.Tensor {
		return d.Run(t, kt.Op{Type: "CSRSparseMatrixToDense", Attrs: kt.Attrs{"type": tensor.Float32}, Outputs: 1}, m)[0].Tensor
	}
	type_ := kt.Attrs{"type": tensor.Float32}
	for range 30 {
		n := 1 + rng.IntN(80)
		sorted := func() *tensor.Tensor { // a product is in order, and has each element once
			return d.Run(t, kt.Op{Type: "SparseMatrixSparseMatMul", Attrs: type_, Outputs: 1}, random(t, d, rng, n, n), random(t, d, rng, n, n))[0].Tensor
		}
		a, b := sorted(), sorted()
		product := d.Run(t, kt.Op{Type: "SparseMatrixSparseMatMul", Attrs: type_, Outputs: 1}, a.Retain(), b.Retain())[0].Tensor
		x, y := dense(a.Retain()), dense(b)
		want := d.Run(t, kt.Op{Type: "MatMul", Outputs: 1}, x, y.Retain())[0].Tensor
		kt.Expect(t, d.Run(t, kt.Op{Type: "SparseMatrixMatMul", Outputs: 1}, a, y), want)
		got := dense(product)
		if diff := kt.Diff(got, want, 1e-6); diff != "" {
			t.Fatal(diff)
		}
		got.Release()
		want.Release()
	}
}

// A matrix survives a round trip to another process, and a tampered one is rejected.
func TestTravel(t *testing.T) {
	d, rng := kt.NewDevice(t), rand.New(rand.NewPCG(5, 6))
	m := compress(t, d, kt.I64(kt.S(3, 3), 0, 0, 1, 0, 2, 0, 1, 1, 1), kt.F32(kt.S(3), 1, 2, 3), 2, 3, 2)
	defer m.Release()
	p, err := m.Proto()
	if err != nil {
		t.Fatal(err)
	}
	read := func(p *tensorpb.TensorProto) error {
		back, err := tensor.FromTensorProto(p, tensor.Host)
		if err != nil {
			return err
		}
		defer back.Release()
		for _, op := range []string{"CSRSparseMatrixToDense", "SparseMatrixTranspose", "CSRSparseMatrixToSparseTensor", "SparseMatrixNNZ"} {
			outputs := map[string]int{"CSRSparseMatrixToSparseTensor": 3}[op]
			out, err := d.Try(kt.Op{Type: op, Attrs: kt.Attrs{"type": tensor.Float32}, Outputs: max(1, outputs)}, back.Retain())
			if err != nil {
				t.Logf("%s: %v", op, err)
			}
			for _, v := range out {
				v.Release()
			}
		}
		return nil
	}
	if err := read(p); err != nil {
		t.Fatal(err)
	}
	back, err := tensor.FromTensorProto(p, tensor.Host)
	if err != nil {
		t.Fatal(err)
	}
	if diff := kt.Diff(back, m, 0); diff != "" {
		t.Error(diff)
	}
	back.Release()
	refused := 0
	for range 400 {
		parts := p.VariantVal[0].Tensors
		part := parts[rng.IntN(len(parts))]
		kept := slices.Clone(part.TensorContent)
		if len(kept) >= 4 {
			at := rng.IntN(len(kept)/4) * 4
			binary.LittleEndian.PutUint32(part.TensorContent[at:], uint32(rng.IntN(9)-4))
		}
		if err := read(p); err != nil {
			refused++
			if status.CodeOf(err) != status.InvalidArgument {
				t.Errorf("the error is %v", err)
			}
		}
		part.TensorContent = kept
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

func TestRefused(t *testing.T) {
	d, rng := kt.NewDevice(t), rand.New(rand.NewPCG(7, 8))
	m := random(t, d, rng, 3, 5)
	defer m.Release()
	type_ := kt.Attrs{"type": tensor.Float32}
	for _, order := range [][]int32{{0, 1, 1}, {0, 1, 3}, {-1, 0, 1}} {
		kt.Fails(t, d, status.InvalidArgument, "permutation must hold each of the numbers", kt.Op{Type: "SparseMatrixSparseCholesky", Attrs: type_}, m.Retain(), kt.I32(kt.S(3), order...))
	}
	batches := kt.I64(kt.S(2, 3), 1, 0, 0, 0, 0, 0)
	kt.Fails(t, d, status.InvalidArgument, "must come matrix by matrix", kt.Op{Type: "SparseTensorToCSRSparseMatrix"}, batches, kt.F32(kt.S(2), 1, 2), kt.I64(kt.S(3), 2, 1, 1))
	empty := compress(t, d, kt.I64(kt.S(0, 3)), kt.F32(kt.S(0)), 0, 2, 2)
	kt.Fails(t, d, status.InvalidArgument, "Variant input 0 is not valid.", kt.Op{Type: "SparseMatrixNNZ"}, empty)
	wide := compress(t, d, kt.I64(kt.S(0, 2)), kt.F32(kt.S(0)), 1<<20, 1<<31-1)
	kt.Fails(t, d, status.ResourceExhausted, "OOM", kt.Op{Type: "CSRSparseMatrixToDense", Attrs: type_}, wide)
	for _, columns := range []int64{1 << 31, 1 << 40} {
		kt.Fails(t, d, status.InvalidArgument, "must be <= Int32Max", kt.Op{Type: "SparseTensorToCSRSparseMatrix"}, kt.I64(kt.S(0, 2)), kt.F32(kt.S(0)), kt.I64(kt.S(2), 1, columns))
		kt.Fails(t, d, status.InvalidArgument, "must be <= Int32Max", kt.Op{Type: "SparseTensorToCSRSparseMatrix"}, kt.I64(kt.S(0, 2)), kt.F32(kt.S(0)), kt.I64(kt.S(2), columns, 1))
	}
}
