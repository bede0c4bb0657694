package tensor

import "testing"

// fullAccount is one whose ordinary memory is in use by somebody else, and a pool of it.
func fullAccount(t *testing.T, limit int64) (*Account, *Pool) {
	t.Helper()
	a := &Account{}
	a.limit.Store(limit) // what else the process holds is not counted
	pool := newPool(a, "test", 0)
	if err := pool.Reserve(limit - limit/reservePart); err != nil {
		t.Fatal(err)
	}
	return a, pool
}

func sessionOf(a *Account, p *Pool) (*Quota, *Pool) {
	q := NewQuota(0, "session", "")
	q.Join(a)
	return q, p.Under(q)
}

// TestReserveIsForSmallHolders: where others have taken all, those that hold little get their share of the reserve, again
// and again, and who holds more gets nothing of it.
func TestReserveIsForSmallHolders(t *testing.T) {
	const limit = 256 << 20
	a, pool := fullAccount(t, limit)
	_, small := sessionOf(a, pool)
	_, large := sessionOf(a, pool)
	const share = limit / reservePart / 2
	_, err := New(large, Uint8, Shape{share + 1})
	wantExhausted(t, err)
	_, err = New(pool, Uint8, Shape{1 << 10})
	wantExhausted(t, err)
	for range 100 {
		v, err := New(small, Uint8, Shape{share / 2})
		if err != nil {
			t.Fatal(err)
		}
		if a.lent.Load() < share/2 {
			t.Fatalf("%d bytes are lent", a.lent.Load())
		}
		v.Release()
		_, err = New(large, Uint8, Shape{share + 1}) // not out of what was released either
		wantExhausted(t, err)
		_, err = New(pool, Uint8, Shape{share / 2})
		wantExhausted(t, err)
	}
	if n := a.lent.Load(); n != 0 {
		t.Errorf("%d bytes are lent after all", n)
	}
	if n, want := pool.Stats().InUse, int64(limit-limit/reservePart); n != want {
		t.Errorf("%d bytes are in use, want %d", n, want)
	}
}

// TestReserveOutlastsTheHeap: what is alive outside of pools exceeds the limit, and those that hold little go on.
func TestReserveOutlastsTheHeap(t *testing.T) {
	a := &Account{}
	a.limit.Store(64 << 20)
	a.other.Store(80 << 20)
	a.short.Store(true)
	a.collected.Store(1 << 62) // a collection would find less
	pool := newPool(a, "test", 0)
	_, err := New(pool, Uint8, Shape{1 << 10})
	wantExhausted(t, err)
	_, own := sessionOf(a, pool)
	v, err := New(own, Uint8, Shape{1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	v.Release()
	if err := own.Reserve(1 << 10); err != nil {
		t.Fatal(err)
	}
	if own.Unreserve(1 << 10); a.lent.Load() != 0 {
		t.Errorf("%d bytes are lent", a.lent.Load())
	}
}

// TestClientsQuota: the sessions of a client have what the client may have, together.
func TestClientsQuota(t *testing.T) {
	a := &Account{}
	client := NewQuota(3<<20, "client 10.0.0.7", "--client-memory raises it")
	shared := newPool(a, "test", 0).Under(client)
	_, one := sessionOf(a, shared)
	_, two := sessionOf(a, shared)
	v, err := New(one, Uint8, Shape{2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(two, Uint8, Shape{2 << 20})
	wantExhausted(t, err, "client 10.0.0.7", "--client-memory")
	v.Release()
	w, err := New(two, Uint8, Shape{2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if w.Release(); client.InUse() != 0 {
		t.Errorf("the client holds %d bytes", client.InUse())
	}
}

func BenchmarkGetUnderSession(b *testing.B) {
	a := &Account{}
	_, p := sessionOf(a, newPool(a, "bench", 0))
	b.ReportAllocs()
	for b.Loop() {
		v, err := p.Get(1 << 10)
		if err != nil {
			b.Fatal(err)
		}
		v.Release()
	}
}

func BenchmarkGetPlain(b *testing.B) {
	p := newPool(&Account{}, "bench", 0)
	b.ReportAllocs()
	for b.Loop() {
		v, err := p.Get(1 << 10)
		if err != nil {
			b.Fatal(err)
		}
		v.Release()
	}
}
