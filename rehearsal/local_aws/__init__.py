"""The AWS API of the rehearsal: moto's server with the actions that this stack needs and moto lacks.

Everything that is added stands in one table, `rehearsal.local_aws.extensions.ADDED`.
"""
