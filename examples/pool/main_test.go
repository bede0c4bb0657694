package main

func Example() {
	main()
	// Output: the sum of the squares is 328350
}
