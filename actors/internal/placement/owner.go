package placement

import "hash/fnv"

// Owners computes where identities live, by rendezvous hashing: if a member goes, only what lived there moves, and if one comes, only what
// moves to it. The zero Owners has no members. It is not changed after it was made.
type Owners struct {
	members []string
	hashes  []uint64
}

// NewOwners returns the Owners of the members of a view, or of some of them.
func NewOwners(members []string) Owners {
	o := Owners{members: members}
	for _, m := range members {
		o.hashes = append(o.hashes, hash(m))
	}
	return o
}

// Owner returns which member an identity lives on; "" if there are no members.
func (o Owners) Owner(identity string) string {
	var owner string
	var best uint64
	id := hash(identity)
	for i, m := range o.members {
		if w := mix(id ^ o.hashes[i]); owner == "" || w > best || w == best && m < owner {
			owner, best = m, w
		}
	}
	return owner
}

// hash is FNV-1a, mixed.
func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return mix(h.Sum64())
}

// mix is the finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
