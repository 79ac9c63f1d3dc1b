"""Stand-ins for the `aws` and `eks` provider plugins; README.md beside this file says what is real in them."""
